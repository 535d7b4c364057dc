//! The images of a fake engine; only their labels matter.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{FakeEngine, container};

/// The id of an image without labels, the default image of containers.
pub(super) const PLAIN: &str = "image";

/// Labels by image, and the platform that the engine reports for containers.
#[derive(Debug, Default)]
pub(super) struct Images {
    marked: BTreeMap<String, Value>,
    platform: Option<String>,
}

impl Images {
    /// The engine's `inspect` of a container.
    pub(super) fn details(&self) -> Value {
        let platform = self.platform.as_ref().map(|name| json!({"architecture": name}));
        json!({"Config": {}, "ImageManifestDescriptor": {"platform": platform}})
    }

    /// The engine's `inspect` of an image, for the platform that the query names, if any.
    pub(super) fn inspect(&self, id: &str, query: &str) -> (u16, Value) {
        let asked = self.platform.as_ref().filter(|name| query.contains(name.as_str()));
        let name = asked.map_or(id.to_owned(), |platform| format!("{id}@{platform}"));
        match self.marked.get(&name) {
            Some(labels) => (200, json!({"Config": {"Labels": labels}})),
            None if id == PLAIN => (200, json!({"Config": {"Labels": null}})),
            None => (404, json!({"message": "no such image"})),
        }
    }
}

impl FakeEngine {
    /// An image with this label. `ID@PLATFORM` is the one of a platform.
    pub fn add_image(&self, id: &str, (name, value): (&str, &str)) {
        self.state().images.marked.insert(id.to_owned(), json!({ name: value }));
    }

    /// A running container of this image, with this label.
    pub fn add_from(&self, image: &str, id: &str, (name, value): (&str, &str)) {
        let mut made = container(id, &json!({ name: value }));
        made["ImageID"] = json!(image);
        self.state().containers.push(made);
    }

    /// Removes a container, as its owner would.
    pub fn take_away(&self, id: &str) {
        self.state().containers.retain(|one| one["Id"] != id);
    }

    /// From now on all containers report this platform.
    pub fn run_on(&self, platform: &str) {
        self.state().images.platform = Some(platform.to_owned());
    }
}
