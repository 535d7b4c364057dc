//! Time limits of the library.

use std::time::Duration;

use crate::ladder::Ladder;

/// Time limits. Nothing in the library waits without one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// From the first step of stopping to KILL.
    pub grace: Duration,
    /// From TERM to KILL when the owner has died.
    pub orphan_grace: Duration,
    /// From KILL until surviving processes are reported as residue.
    pub proof: Duration,
    /// From the first removal request to a container engine until remaining containers are reported as
    /// residue.
    pub containers: Duration,
    /// How long an engine may work on a create request whose client is gone.
    pub late_create: Duration,
    /// For the peer of a control socket to accept a message.
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
    /// The ladder while the owner lives.
    pub fn ladder(&self) -> Ladder {
        Ladder::within(self.grace)
    }

    /// The ladder after the owner has died, without a step for stdin: it closed with the owner.
    pub fn orphan_ladder(&self) -> Ladder {
        Ladder { close: Duration::ZERO, ask: self.orphan_grace }
    }
}
