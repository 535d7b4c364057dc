//! Counts of instances by outcome.

use serde::{Deserialize, Serialize};

/// Counts of a keeper's instances. At every moment `started = live + gone + unverified`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Books {
    /// Instances whose start was begun, successful or not.
    pub started: u64,
    /// Instances whose end is not known yet.
    pub live: u64,
    /// Instances that are proven gone.
    pub gone: u64,
    /// Instances that may have left processes or containers.
    pub unverified: u64,
}

impl Books {
    /// Whether every started instance is accounted for.
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

    /// An unverified instance is proven gone after all.
    pub(super) fn paid(&mut self) {
        self.unverified -= 1;
        self.gone += 1;
    }
}
