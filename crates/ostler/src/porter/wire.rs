//! What guardian and porter say to each other, over the same kind of socket as owner and guardian.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::door::DoorOrders;
use crate::engine::{EngineResidue, EngineState, RemovedContainer};

/// From the guardian to the porter.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Serve the Door. With it comes its listening socket.
    Serve(Box<Service>),
    /// Let nothing be created or started any more, and remove everything; containers have this long to
    /// end by themselves.
    Clear { grace: Duration },
    /// The proof is on record: leave.
    Dismiss,
}

/// All that a porter has to know, also when nobody is left to tell it more.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Service {
    pub(crate) door: DoorOrders,
    /// The owner's directory, where the note is.
    pub(crate) book: PathBuf,
    /// What the docker command needs to reach the engine, if that is behind ssh.
    pub(crate) surroundings: Vec<(OsString, OsString)>,
    /// Until what is still there is told.
    pub(crate) limit: Duration,
    /// How long an engine may go on with creates that nobody counts any more.
    pub(crate) late_create: Duration,
}

/// From the porter to the guardian.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Report {
    /// A container that was meant to go on by itself is gone.
    Removed(RemovedContainer),
    /// This is still there, or may be; the porter goes on.
    Remaining(EngineResidue),
    /// How the engine takes it, whenever that changes.
    Engine(EngineState),
    /// The engine has nothing of the instance.
    Cleared,
}
