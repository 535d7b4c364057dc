//! What happens to an instance, as its backend tells it.

use std::process::ExitStatus;

use crate::containers::{EngineState, RemovedContainer};
use crate::level::Level;
use crate::outcome::{Proof, Refusal, Residue};
use crate::resources::Excess;
use crate::whereabouts::Whereabouts;

/// What happens to an instance.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// The server runs.
    Started {
        /// Where it is.
        whereabouts: Whereabouts,
        /// How firmly it is held, if it is a process.
        level: Option<Level>,
    },
    /// The server was not started; nothing else will happen.
    Refused(Refusal),
    /// The server itself has ended; what it caused is ended now.
    Exited(ExitStatus),
    /// KILL has not emptied the fence within its limit; the guardian goes on.
    Remaining(Residue),
    /// A limit on what it may use has had its effect. Told when nothing is left of it.
    Exceeded(Excess),
    /// Containers that the server may cause can't be followed, and why. Told after its start.
    Unfollowed(String),
    /// A container that was started to go on by itself was removed.
    Removed(RemovedContainer),
    /// Containers can't be created any more and are being removed, and how their engine takes it. Told
    /// whenever that changes, if there may be any.
    Clearing(EngineState),
    /// It can't be spoken with any more, and why. Told of what is elsewhere.
    Lost(String),
    /// Nothing is left; nothing else will happen.
    Empty(Proof),
    /// Its guardian, or what else holds it, was killed; what is left must be ended without it.
    GuardianLost,
}
