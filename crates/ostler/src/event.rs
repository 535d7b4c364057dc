//! Events of an instance, reported by its backend.

use std::process::ExitStatus;

use crate::containers::{EngineState, RemovedContainer};
use crate::level::Level;
use crate::outcome::{Proof, Refusal, Residue};
use crate::resources::Excess;
use crate::whereabouts::Whereabouts;

/// An event of an instance.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// The server runs.
    Started {
        /// Its processes or its address.
        whereabouts: Whereabouts,
        /// Its containment level, if it is a process.
        level: Option<Level>,
    },
    /// The server was not started. The last event.
    Refused(Refusal),
    /// The server itself has exited; its other processes are being ended.
    Exited(ExitStatus),
    /// Processes survived KILL for the proof limit; the guardian keeps trying.
    Remaining(Residue),
    /// A resource limit took effect. Reported after the last process has ended.
    Exceeded(Excess),
    /// Containers that the server may create cannot be tracked, for this reason. Reported after its start.
    Unfollowed(String),
    /// A detached container of the server was removed.
    Removed(RemovedContainer),
    /// The server's containers are being removed and no new ones can be created. Reported whenever the
    /// engine's state changes, if there may be containers.
    Clearing(EngineState),
    /// The connection to a remote server was lost, for this reason.
    Lost(String),
    /// Nothing is left. The last event.
    Empty(Proof),
    /// Its guardian was killed; the owner must end what is left without it.
    GuardianLost,
}
