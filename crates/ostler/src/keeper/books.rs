//! What was started, and what became of it.

use serde::{Deserialize, Serialize};

/// The books of a keeper. At every moment `started = live + gone + unverified`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Books {
    /// Instances that were ever started, or tried to.
    pub started: u64,
    /// Those that are there, from their start until their end is known.
    pub live: u64,
    /// Those that are proven to be gone.
    pub gone: u64,
    /// Those of which something may be left.
    pub unverified: u64,
}

impl Books {
    /// Whether nothing is missing.
    pub fn balance(&self) -> bool {
        self.started == self.live + self.gone + self.unverified
    }

    pub(super) fn start(&mut self) {
        self.started += 1;
        self.live += 1;
    }

    pub(super) fn gone(&mut self) {
        self.live -= 1;
        self.gone += 1;
    }

    pub(super) fn unverified(&mut self) {
        self.live -= 1;
        self.unverified += 1;
    }

    /// What could not be proven at first is proven now.
    pub(super) fn paid(&mut self) {
        self.unverified -= 1;
        self.gone += 1;
    }
}
