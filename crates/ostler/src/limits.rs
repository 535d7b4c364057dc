//! Every wait of the library, by name.

use std::time::Duration;

use crate::ladder::Ladder;

/// How long things may take. Nothing in the library waits without one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// From the first step of stopping to KILL, in all.
    pub grace: Duration,
    /// From TERM to KILL when the owner has died.
    pub orphan_grace: Duration,
    /// From KILL until what is still there is reported as residue.
    pub proof: Duration,
    /// From the first request to a container engine to remove something until what it still has is
    /// reported as residue.
    pub containers: Duration,
    /// How long an engine may go on with a create that nobody waits for any more.
    pub late_create: Duration,
    /// For the other end of a control socket to take a message.
    pub control: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            grace: Duration::from_millis(1500),
            orphan_grace: Duration::from_millis(500),
            proof: Duration::from_secs(1),
            containers: Duration::from_secs(3),
            late_create: Duration::from_mins(1),
            control: Duration::from_secs(10),
        }
    }
}

impl Limits {
    /// The ladder for every end that the owner lives to see.
    pub fn ladder(&self) -> Ladder {
        Ladder::within(self.grace)
    }

    /// The ladder for what a dead owner left: nobody can close its stdin any more.
    pub fn orphan_ladder(&self) -> Ladder {
        Ladder { close: Duration::ZERO, ask: self.orphan_grace }
    }
}
