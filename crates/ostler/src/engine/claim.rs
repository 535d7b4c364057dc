//! What is to be removed from an engine, and what came of it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::answers::ContainerView;
use super::exec::LeftExec;
use super::proof::{Doubt, Made};
use crate::id::InstanceId;

/// What is to be removed.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    /// Only what carries its label.
    pub(crate) instance: InstanceId,
    /// The containers that were created for it, as far as that is known.
    pub(crate) made: Made,
    /// What may still appear.
    pub(crate) creates: Creates,
}

/// Creates that an engine may still be busy with. It finishes them also when their client has died.
#[derive(Clone, Debug)]
pub(crate) enum Creates {
    /// Nobody can have asked for one that is not answered.
    None,
    /// Somebody counts those that are not answered. No new ones are let through.
    Counted(Arc<AtomicUsize>),
    /// So many were not answered when whoever counted them died.
    Lost {
        /// How many.
        count: usize,
        /// How long they are waited for, unless they are seen.
        settle: Duration,
    },
}

impl Creates {
    /// Whether a container may still appear, `since` we look for them and having seen so many appear.
    pub(super) fn may_appear(&self, since: Instant, appeared: usize) -> bool {
        match self {
            Self::None => false,
            Self::Counted(count) => count.load(Ordering::Acquire) > 0,
            Self::Lost { count, settle } => appeared < *count && since.elapsed() < *settle,
        }
    }
}

/// How long a removal may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// For a container to end by itself once it was asked to. None: it is not asked.
    pub(crate) grace: Duration,
    /// For each call to the engine.
    pub(crate) call: Duration,
    /// Until what is left is told. The removal can then be begun again at any time.
    pub(crate) limit: Duration,
}

impl Times {
    /// For one call to an engine that is under load.
    pub(crate) const CALL: Duration = Duration::from_secs(10);
}

/// How a removal ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cleared {
    /// The engine has nothing of the instance any more.
    Gone {
        /// Networks of the instance that somebody else's containers are on.
        kept_networks: Vec<String>,
    },
    /// Something is left, or may be.
    Unverified(EngineResidue),
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

/// What is told of a removal while it goes on.
#[derive(Debug)]
pub(crate) enum News {
    /// This one is gone.
    Removed(RemovedContainer),
    /// The engine was asked what it has.
    State(EngineState),
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

impl EngineResidue {
    /// Whether there is nothing that could be removed: of all that is left it is not known whose it is.
    pub(crate) fn is_in_doubt(&self) -> bool {
        matches!(self, Self::Containers(left) if left.iter().all(|one| one.doubt.is_some()))
    }
}

impl LeftContainer {
    pub(crate) fn with_doubt(self, doubt: Option<&Doubt>) -> Self {
        Self { doubt: doubt.map(ToString::to_string), ..self }
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

    #[test]
    fn one_container_that_can_be_removed_is_no_doubt() {
        let residue = |left: &[LeftContainer]| EngineResidue::Containers(left.to_vec());
        assert!(residue(&[left(Some("x"))]).is_in_doubt());
        assert!(!residue(&[left(Some("x")), left(None)]).is_in_doubt());
        assert!(!EngineResidue::Creating.is_in_doubt());
    }
}
