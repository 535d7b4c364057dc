//! Events: decisions of a keeper and what came of them.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::cause::{Cause, Ending};
use super::key::{Key, Who};
use super::principal::Principal;
use crate::containers::RemovedContainer;
use crate::id::InstanceId;
use crate::level::Level;
use crate::outcome::{Proof, Residue};
use crate::resources::Excess;

/// An event of a keeper.
#[derive(Clone, Debug)]
pub struct Event {
    /// Wall-clock time of the event.
    pub at: SystemTime,
    /// The instance's number within its keeper; 0 for events that concern no instance.
    pub number: u64,
    /// What happened.
    pub what: What,
}

/// What happened. Variants without a subject concern the instance of the [`Event`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum What {
    /// A request waits for an instance.
    Queued {
        /// The instance it waits for.
        key: Key,
        /// The caller.
        by: Who,
    },
    /// An instance is being started.
    Starting {
        /// Its key.
        key: Key,
        /// The caller that it is started for.
        by: Who,
    },
    /// Its process runs.
    Running {
        /// Its id in the ledger.
        instance: InstanceId,
        /// Its containment level, if it is a process.
        level: Option<Level>,
    },
    /// The connection to a remote server is up.
    Reached {
        /// Address for display, without secrets.
        place: String,
    },
    /// It takes calls.
    Ready {
        /// Time since its start.
        after: Duration,
    },
    /// It takes no more calls and finishes those in flight, within the drain limit.
    Draining(Cause),
    /// It is being stopped.
    Stopping(Cause),
    /// A resource limit took effect.
    Exceeded(Excess),
    /// Containers that it may create cannot be tracked, for this reason.
    Unfollowed(String),
    /// A detached container that it had started was removed with it.
    Removed(RemovedContainer),
    /// It is proven gone.
    Gone {
        /// How it ended.
        ending: Arc<Ending>,
        /// The proof; `None` if its program never ran.
        proof: Option<Proof>,
    },
    /// It may have left processes or containers.
    Unverified {
        /// How it ended.
        ending: Arc<Ending>,
        /// What may be left.
        residue: Residue,
    },
    /// An unverified instance is proven gone after all.
    Paid,
    /// A server failed; its next start for this principal is delayed.
    BackingOff {
        /// The server.
        server: Arc<str>,
        /// The principal that the failed instance was started for.
        principal: Principal,
        /// Number of failures in a row.
        failures: u32,
        /// Delay until the next start.
        wait: Duration,
    },
    /// The configuration was replaced.
    Replaced(super::plan::Changes),
}
