//! What an engine holds of an instance, for reports to people and for ledgers.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::id::{InstanceId, OwnerId};

/// A container that carries our labels, as listed by its engine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ContainerView {
    /// Full id.
    pub id: String,
    /// All names.
    pub names: Vec<String>,
    /// Image that it was created from.
    pub image: String,
    /// Command that runs in it.
    pub command: String,
    /// State, as the engine names it.
    pub state: String,
    /// Instance that created it.
    pub instance: InstanceId,
    /// Owner of the instance, if the label is readable.
    pub owner: Option<OwnerId>,
    /// Creation time, in seconds since 1970.
    pub created: i64,
}

/// What an engine still holds, or may hold, of an instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EngineResidue {
    /// Containers that could not be removed.
    Containers(Vec<LeftContainer>),
    /// Networks that could not be removed although no container uses them.
    Networks(Vec<String>),
    /// Pods that could not be removed although they have no container.
    Pods(Vec<String>),
    /// A create is pending, so a container may still appear.
    Creating,
    /// Exec sessions in foreign containers that did not end.
    Execs(Vec<LeftExec>),
    /// The engine does not answer, so its state is unknown.
    Unreachable(Unreachable),
}

/// A container that still exists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftContainer {
    /// Full id.
    pub id: String,
    /// First name.
    pub name: String,
    /// State, as the engine names it.
    pub state: String,
    /// Set if ostler left the container alone because it may be the user's own: why.
    #[serde(default)]
    pub doubt: Option<String>,
}

/// An engine that does not answer requests.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("the container engine at {endpoint} can't be used: {reason}")]
pub struct Unreachable {
    /// Address of the engine.
    pub endpoint: String,
    /// What went wrong.
    pub reason: String,
}

/// Progress of an engine while everything of an instance is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EngineState {
    /// The first request is sent and has no response yet.
    Asked,
    /// It responds, and still holds something of the instance.
    Answering,
    /// It does not respond, or responds with errors.
    Silent,
    /// It holds nothing of the instance any more.
    Clear,
}

/// An exec session that could not be ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftExec {
    /// Id of the exec session.
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

/// A detached container (`docker run -d`) that was running when ostler removed it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemovedContainer {
    /// Full id.
    pub id: String,
    /// Image that it was created from.
    pub image: String,
    /// Command that ran in it.
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
            Self::Creating => {
                f.write_str("possibly a container: the engine was still creating one")
            }
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
    fn residue_round_trips_through_postcard_and_json() {
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
