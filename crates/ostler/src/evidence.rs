//! What is found of an instance whose owner is dead.

use serde::Serialize;

use crate::identity::Process;
use crate::ledger::Entry;

/// What its backend knows of an instance of a dead owner, before anything is done about it.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// The ledger's entry.
    pub entry: Entry,
    /// What there is.
    pub traces: Traces,
}

/// What there is of an instance. A backend fills in what it knows of.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Traces {
    /// The guardian that still works on it.
    pub guardian: Option<Process>,
    /// Whether its leaf is still there.
    pub leaf: bool,
    /// What carries its mark.
    pub processes: Vec<Process>,
    /// What else there is, in the words of its backend.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<String>,
    /// Whether a guardian still works on its end; a sweep leaves the instance to that guardian.
    #[serde(skip)]
    pub is_tended: bool,
}
