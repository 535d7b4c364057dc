//! What is to be removed from an engine, and what came of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::proof::{CreatedIds, Doubt};
use crate::containers::{EngineResidue, EngineState, LeftContainer, RemovedContainer};
use crate::id::InstanceId;

/// What is to be removed.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    /// Only what carries its label.
    pub(crate) instance: InstanceId,
    /// The containers that were created for it, as far as that is known.
    pub(crate) made: CreatedIds,
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

/// What is told of a removal while it goes on.
#[derive(Debug)]
pub(crate) enum News {
    /// This one is gone.
    Removed(RemovedContainer),
    /// The engine was asked what it has.
    State(EngineState),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn left(is_doubted: bool) -> LeftContainer {
        let (id, name) = ("1".repeat(64), "n".to_owned());
        let doubt = is_doubted.then(|| "its image is gone".to_owned());
        LeftContainer { id, name, state: "running".into(), doubt }
    }

    #[test]
    fn one_container_that_can_be_removed_is_no_doubt() {
        let residue = |left: &[LeftContainer]| EngineResidue::Containers(left.to_vec());
        assert!(residue(&[left(true)]).is_in_doubt());
        assert!(!residue(&[left(true), left(false)]).is_in_doubt());
        assert!(!EngineResidue::Creating.is_in_doubt());
    }
}
