//! What an engine has of an instance, or had, as it is told to people and kept in ledgers.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::id::{InstanceId, OwnerId};

/// A container of ours, as its engine tells it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ContainerView {
    /// Its id, in full.
    pub id: String,
    /// Its names.
    pub names: Vec<String>,
    /// The image it was made from.
    pub image: String,
    /// What runs in it.
    pub command: String,
    /// Its state, in the engine's words.
    pub state: String,
    /// Which instance caused it.
    pub instance: InstanceId,
    /// Whose instance that is, as far as its label can be read.
    pub owner: Option<OwnerId>,
    /// When it was created, in seconds since 1970.
    pub created: i64,
}

/// What an engine may still have of an instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EngineResidue {
    /// These did not go.
    Containers(Vec<LeftContainer>),
    /// These did not go, although no container is on them.
    Networks(Vec<String>),
    /// These did not go, although no container is in them.
    Pods(Vec<String>),
    /// Containers that are being created, if any.
    Creating,
    /// Commands in other people's containers that did not end.
    Execs(Vec<LeftExec>),
    /// The engine does not say.
    Unreachable(Unreachable),
}

/// A container that is still there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftContainer {
    /// Its id, in full.
    pub id: String,
    /// Its first name.
    pub name: String,
    /// Its state, in the engine's words.
    pub state: String,
    /// Why it was left alone: it may be the user's own.
    #[serde(default)]
    pub doubt: Option<String>,
}

/// An engine that can't be asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("the container engine at {endpoint} can't be asked: {reason}")]
pub struct Unreachable {
    /// Where it should be.
    pub endpoint: String,
    /// Why not.
    pub reason: String,
}

/// How an engine takes it that everything of an instance is to be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EngineState {
    /// It was asked what it has, and has not said anything yet.
    Asked,
    /// It answers, and has not got rid of everything yet.
    Answering,
    /// It does not answer, or not as it should.
    Silent,
    /// It has nothing of the instance any more.
    Clear,
}

/// A command that could not be ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftExec {
    /// The engine's id of it.
    pub id: String,
    /// Why it may still run.
    pub reason: String,
}

impl fmt::Display for LeftExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short: String = self.id.chars().take(12).collect();
        write!(f, "command {short} in a container: {}", self.reason)
    }
}

/// A container that was meant to go on by itself, and was running when it was removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemovedContainer {
    /// Its id, in full.
    pub id: String,
    /// The image it was made from.
    pub image: String,
    /// What ran in it.
    pub command: String,
}

impl fmt::Display for EngineResidue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Containers(containers) => {
                let list: Vec<String> = containers.iter().map(ToString::to_string).collect();
                write!(f, "container {}", list.join(", "))
            }
            Self::Networks(names) => write!(f, "container network {}", names.join(", ")),
            Self::Pods(ids) => write!(f, "pod {}", ids.join(", ")),
            Self::Creating => f.write_str("a container that is being created, if it comes to be"),
            Self::Execs(execs) => {
                let list: Vec<String> = execs.iter().map(ToString::to_string).collect();
                f.write_str(&list.join("; "))
            }
            Self::Unreachable(engine) => write!(f, "containers, if any: {engine}"),
        }
    }
}

impl fmt::Display for LeftContainer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short: String = self.id.chars().take(12).collect();
        write!(f, "{} ({short}, {})", self.name, self.state)?;
        match &self.doubt {
            Some(doubt) => write!(f, ", which may be your own: {doubt}; remove it if it is not"),
            None => Ok(()),
        }
    }
}

impl From<&ContainerView> for LeftContainer {
    fn from(view: &ContainerView) -> Self {
        let name = view.names.first().cloned().unwrap_or_default();
        Self { id: view.id.clone(), name, state: view.state.clone(), doubt: None }
    }
}

impl From<&ContainerView> for RemovedContainer {
    fn from(view: &ContainerView) -> Self {
        let ContainerView { id, image, command, .. } = view.clone();
        Self { id, image, command }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(doubt: Option<&str>) -> LeftContainer {
        let (id, name) = ("1".repeat(64), "n".to_owned());
        LeftContainer { id, name, state: "running".into(), doubt: doubt.map(ToOwned::to_owned) }
    }

    #[test]
    fn what_is_left_survives_being_sent_and_written() {
        for residue in [left(None), left(Some("its image is gone"))] {
            let residue = EngineResidue::Containers(vec![residue]);
            let bytes = postcard::to_stdvec(&residue).unwrap();
            assert_eq!(postcard::from_bytes::<EngineResidue>(&bytes).unwrap(), residue);
            let text = serde_json::to_string(&residue).unwrap();
            assert_eq!(serde_json::from_str::<EngineResidue>(&text).unwrap(), residue);
        }
        let old = r#"{"id":"1","name":"n","state":"running"}"#;
        assert_eq!(serde_json::from_str::<LeftContainer>(old).unwrap().doubt, None);
    }
}
