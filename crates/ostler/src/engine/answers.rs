//! What engines answer, as far as we read it.

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::argv::detaches;
use super::proof::Candidate;
use crate::containers::ContainerView;
use crate::engine::label::{self, LabelMap, Marks};
use crate::id::InstanceId;

/// A container in a list.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Listed {
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

impl Listed {
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

    /// The same with all that is needed to prove whose it is.
    pub(crate) fn candidate(mut self) -> Option<Candidate> {
        let (marks, image) = (self.labels.as_ref().map(Marks::of)?, self.image_id.take());
        Some(Candidate { view: self.view()?, marks, image })
    }

    /// `None` if it is none of ours.
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

/// More about a container.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Details {
    #[serde(default)]
    id: String,
    #[serde(default)]
    config: Config,
    /// Which of several images under one id it was made from.
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
    /// Podman's: the command that has made it.
    create_command: Option<Vec<String>>,
}

impl Details {
    /// Whether it was made to run with nobody listening.
    pub(crate) fn is_detached(&self) -> bool {
        let Config { attach_stdin, attach_stdout, attach_stderr, create_command } = &self.config;
        // Podman never says who is attached.
        let command = create_command.as_deref().and_then(detaches);
        command.unwrap_or(!(*attach_stdin || *attach_stdout || *attach_stderr))
    }

    /// The platform of its image, if there may be images of others under the same id.
    pub(crate) fn platform(&self) -> Option<&str> {
        let manifest = self.image_manifest_descriptor.as_ref()?;
        manifest.platform.as_ref().map(|platform| platform.get())
    }

    /// Whether it is about the container of this id.
    pub(crate) fn is_of(&self, id: &str) -> bool {
        self.id == id
    }
}

/// An image. One that is described without a configuration may have any labels.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Image {
    config: ImageConfig,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ImageConfig {
    #[serde(default)]
    labels: Option<LabelMap>,
}

impl Image {
    pub(crate) fn into_labels(self) -> LabelMap {
        self.config.labels.unwrap_or_default()
    }
}

/// A network in a list.
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

/// What an engine says of itself.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct EngineVersion {
    pub(crate) version: String,
}

/// What a container uses.
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
    pub(crate) fn memory(&self) -> Option<u64> {
        self.memory_stats.usage
    }
}

/// A command in a container.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Exec {
    #[serde(default)]
    pub(crate) running: bool,
    /// As the engine's machine counts.
    #[serde(default)]
    pub(crate) pid: i32,
    #[serde(default, rename = "ContainerID")]
    pub(crate) container: String,
}

/// A command as docker tells it, or word by word as podman's command does.
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
