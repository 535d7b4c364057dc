//! Input and result of [`clear`](super::clear::clear): what to remove from an engine, and what is left.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::proof::{CreatedIds, Doubt};
use crate::containers::{EngineResidue, EngineState, LeftContainer, RemovedContainer};
use crate::id::InstanceId;

/// What to remove from an engine.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    /// Only objects with this instance's label are removed.
    pub(crate) instance: InstanceId,
    /// Known containers of the instance.
    pub(crate) made: CreatedIds,
    pub(crate) creates: PendingCreates,
}

/// Creates that an engine may still carry out. It does so even if their client has died.
#[derive(Clone, Debug)]
pub(crate) enum PendingCreates {
    /// The engine has responded to all creates.
    None,
    /// The Door counts those without a response, and forwards no new ones.
    Counted(Arc<AtomicUsize>),
    /// A porter died while creates were pending, so their responses are lost.
    Lost {
        /// Number of lost creates.
        count: usize,
        /// How long to wait for their containers to appear.
        settle: Duration,
    },
}

impl PendingCreates {
    /// Whether a container may still appear, if the clearing began at `since` and `appeared` containers were not in its
    /// first list.
    pub(super) fn may_appear(&self, since: Instant, appeared: usize) -> bool {
        match self {
            Self::None => false,
            Self::Counted(count) => count.load(Ordering::Acquire) > 0,
            Self::Lost { count, settle } => appeared < *count && since.elapsed() < *settle,
        }
    }
}

/// Time limits of a removal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// For a container to stop by itself. Zero: it is removed without a stop.
    pub(crate) grace: Duration,
    /// For each request to the engine.
    pub(crate) call: Duration,
    /// For the whole removal. It can be started again at any time.
    pub(crate) limit: Duration,
}

impl Times {
    /// Default of `call`, enough for an engine under load.
    pub(crate) const CALL: Duration = Duration::from_secs(10);
}

/// Result of a removal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cleared {
    /// The engine holds nothing of the instance any more.
    Gone {
        /// Networks of the instance that were kept because foreign containers use them.
        kept_networks: Vec<String>,
    },
    /// Something is left, or may be left.
    Unverified(EngineResidue),
}

/// Progress of a removal.
#[derive(Debug)]
pub(crate) enum ClearProgress {
    /// A detached container is gone.
    Removed(RemovedContainer),
    /// Result of the last list request.
    State(EngineState),
}

impl EngineResidue {
    /// Whether everything that is left was left alone on purpose, because its origin is unknown.
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
    fn residue_with_a_removable_container_is_not_in_doubt() {
        let residue = |left: &[LeftContainer]| EngineResidue::Containers(left.to_vec());
        assert!(residue(&[left(true)]).is_in_doubt());
        assert!(!residue(&[left(true), left(false)]).is_in_doubt());
        assert!(!EngineResidue::Creating.is_in_doubt());
    }
}
