//! What a keeper did, and why.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::cause::{Cause, Ending};
use super::key::{Key, Who};
use super::principal::Principal;
use crate::containers::RemovedContainer;
use crate::id::InstanceId;
use crate::outcome::{Proof, Residue};
use crate::resources::Excess;

/// A decision of a keeper, or what became of it.
#[derive(Clone, Debug)]
pub struct Event {
    /// When.
    pub at: SystemTime,
    /// The instance's number within its keeper; 0 if it is about none.
    pub number: u64,
    /// What was decided, or has happened.
    pub what: What,
}

/// What was decided, or has happened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum What {
    /// Somebody has to wait for an instance.
    Queued {
        /// For which one.
        key: Key,
        /// Who.
        by: Who,
    },
    /// An instance is being started.
    Starting {
        /// Which one.
        key: Key,
        /// Who has asked for it.
        by: Who,
    },
    /// It runs.
    Running {
        /// Under this id in the ledger.
        instance: InstanceId,
    },
    /// It runs elsewhere, and is spoken with.
    Reached {
        /// Where it is, for people to see.
        place: String,
    },
    /// It can be used.
    Ready {
        /// How long that took.
        after: Duration,
    },
    /// It takes no more calls, and those in flight have a deadline.
    Draining(Cause),
    /// It is being ended.
    Stopping(Cause),
    /// A limit on what it may use has had its effect.
    Exceeded(Excess),
    /// Containers that it may cause can't be followed, and why.
    Unfollowed(String),
    /// A container that it had started to go on by itself was removed with it.
    Removed(RemovedContainer),
    /// It is proven to be gone.
    Gone {
        /// How it ended.
        ending: Arc<Ending>,
        /// Why we may say so; `None` if it never came to be.
        proof: Option<Proof>,
    },
    /// Something of it may be left.
    Unverified {
        /// How it ended.
        ending: Arc<Ending>,
        /// What.
        residue: Residue,
    },
    /// What it left is gone by now.
    Paid,
    /// A server has failed, and is not started again before its time for the principal that caused it.
    BackingOff {
        /// Which server.
        server: Arc<str>,
        /// The principal that it was started for.
        principal: Principal,
        /// How many times in a row.
        failures: u32,
        /// How long.
        wait: Duration,
    },
    /// The configuration was replaced.
    Replaced(super::plan::Changes),
}
