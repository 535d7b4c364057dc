//! The parts of an engine's JSON responses that ostler reads.

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::argv::detaches;
use super::proof::Candidate;
use crate::containers::ContainerView;
use crate::engine::label::{self, LabelMap, OriginLabels};
use crate::id::InstanceId;

/// A container in the list of containers.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct ListedContainer {
    pub(crate) id: String,
    #[serde(default)]
    names: Option<Vec<String>>,
    #[serde(default)]
    image: Option<String>,
    #[serde(default, rename = "ImageID")]
    image_id: Option<String>,
    #[serde(default, deserialize_with = "words")]
    command: Option<String>,
    #[serde(default)]
    state: Option<String>,
    #[serde(default)]
    created: Option<i64>,
    #[serde(default)]
    labels: Option<LabelMap>,
}

impl ListedContainer {
    pub(crate) fn instance(&self) -> Option<InstanceId> {
        instance_in(self.labels.as_ref())
    }

    pub(crate) fn label(&self, name: &str) -> Option<&str> {
        self.labels.as_ref()?.get(name).map(String::as_str)
    }

    /// All labels.
    pub(crate) fn labels(&self) -> &LabelMap {
        const NONE: &LabelMap = &LabelMap::new();
        self.labels.as_ref().unwrap_or(NONE)
    }

    /// Its names without the slash that engines put before them.
    pub(crate) fn plain_names(&self) -> Vec<String> {
        let names = self.names.iter().flatten();
        names.map(|name| name.trim_start_matches('/').to_owned()).collect()
    }

    pub(crate) fn image(&self) -> &str {
        self.image.as_deref().unwrap_or_default()
    }

    /// When it was created, in seconds since 1970.
    pub(crate) fn created(&self) -> i64 {
        self.created.unwrap_or_default()
    }

    pub(crate) fn state(&self) -> &str {
        self.state.as_deref().unwrap_or_default()
    }

    /// The container with what is needed to prove which instance created it. `None` if it carries no instance label.
    pub(crate) fn candidate(mut self) -> Option<Candidate> {
        let (origin_labels, image) =
            (self.labels.as_ref().map(OriginLabels::of)?, self.image_id.take());
        Some(Candidate { view: self.view()?, origin_labels, image })
    }

    /// `None` if it carries no instance label.
    pub(crate) fn view(self) -> Option<ContainerView> {
        let instance = self.instance()?;
        let owner = self.labels.as_ref().and_then(|labels| labels.get(label::OWNER));
        let owner = owner.and_then(|owner| owner.parse().ok());
        let names = self.plain_names();
        Some(ContainerView {
            id: self.id,
            names,
            image: self.image.unwrap_or_default(),
            command: self.command.unwrap_or_default(),
            state: self.state.unwrap_or_default(),
            instance,
            owner,
            created: self.created.unwrap_or_default(),
        })
    }
}

/// An inspected container.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct ContainerDetails {
    #[serde(default)]
    id: String,
    #[serde(default)]
    config: Config,
    /// Which image of a multi-platform image it was created from.
    #[serde(default)]
    image_manifest_descriptor: Option<Manifest>,
}

#[derive(Debug, Deserialize)]
struct Manifest {
    platform: Option<Box<RawValue>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Config {
    attach_stdin: bool,
    attach_stdout: bool,
    attach_stderr: bool,
    /// Only podman: the command line that created the container.
    create_command: Option<Vec<String>>,
}

impl ContainerDetails {
    /// Whether it was created without an attached client, to keep running by itself.
    pub(crate) fn is_detached(&self) -> bool {
        let Config { attach_stdin, attach_stdout, attach_stderr, create_command } = &self.config;
        // Podman does not report attached streams, so its command line decides.
        let command = create_command.as_deref().and_then(detaches);
        command.unwrap_or(!(*attach_stdin || *attach_stdout || *attach_stderr))
    }

    /// The platform of its image, if the image id may stand for several platforms.
    pub(crate) fn platform(&self) -> Option<&str> {
        let manifest = self.image_manifest_descriptor.as_ref()?;
        manifest.platform.as_ref().map(|platform| platform.get())
    }

    /// Whether this describes the container with this id.
    pub(crate) fn is_of(&self, id: &str) -> bool {
        self.id == id
    }
}

/// An inspected image. The configuration is mandatory: without it the labels would be unknown.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct ImageDetails {
    config: ImageConfig,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ImageConfig {
    #[serde(default)]
    labels: Option<LabelMap>,
}

impl ImageDetails {
    pub(crate) fn into_labels(self) -> LabelMap {
        self.config.labels.unwrap_or_default()
    }
}

/// A network in the list of networks.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Network {
    pub(crate) id: String,
    #[serde(default)]
    pub(crate) name: String,
    #[serde(default)]
    labels: Option<LabelMap>,
}

impl Network {
    pub(crate) fn instance(&self) -> Option<InstanceId> {
        instance_in(self.labels.as_ref())
    }
}

/// Version of an engine.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct EngineVersion {
    pub(crate) version: String,
}

/// Resource usage of a container.
#[derive(Debug, Deserialize)]
pub(crate) struct Stats {
    #[serde(default)]
    memory_stats: MemoryStats,
}

#[derive(Debug, Default, Deserialize)]
struct MemoryStats {
    usage: Option<u64>,
}

impl Stats {
    /// Memory in use, in bytes.
    pub(crate) fn memory(&self) -> Option<u64> {
        self.memory_stats.usage
    }
}

/// An exec session.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Exec {
    #[serde(default)]
    pub(crate) running: bool,
    /// Pid on the engine's machine.
    #[serde(default)]
    pub(crate) pid: i32,
    #[serde(default, rename = "ContainerID")]
    pub(crate) container: String,
}

/// A command as one string (docker) or as a list of words (podman).
fn words<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Words {
        Line(String),
        List(Vec<String>),
    }
    Ok(Option::deserialize(from)?.map(|words| match words {
        Words::Line(line) => line,
        Words::List(list) => list.join(" "),
    }))
}

fn instance_in(labels: Option<&LabelMap>) -> Option<InstanceId> {
    labels?.get(label::INSTANCE)?.parse().ok()
}
