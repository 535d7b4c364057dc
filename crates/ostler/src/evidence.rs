//! What a backend finds of an instance whose owner is dead.

use serde::Serialize;

use crate::identity::Process;
use crate::ledger::Entry;

/// A ledger entry of a dead owner, with what its backend found, before anything is ended.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// The ledger entry.
    pub entry: Entry,
    /// What was found.
    pub traces: Traces,
}

/// What was found of an instance. Each backend fills in the fields that apply to it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Traces {
    /// The guardian, if it lives.
    pub guardian: Option<Process>,
    /// Whether its leaf cgroup exists.
    pub leaf: bool,
    /// Processes that carry its mark, [`INSTANCE_VARIABLE`](crate::INSTANCE_VARIABLE).
    pub processes: Vec<Process>,
    /// Anything else, described by its backend.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<String>,
    /// Whether a guardian is ending it; a sweep leaves the instance to that guardian.
    #[serde(skip)]
    pub is_tended: bool,
}
