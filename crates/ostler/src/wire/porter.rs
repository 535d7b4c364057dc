//! What guardian and porter say to each other, over the same kind of socket as owner and guardian.

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::containers::{EngineResidue, EngineState, Labels, RemovedContainer, Ways};
use crate::level::Level;
use crate::terms::GuardianProgram;

/// From the guardian to the porter.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Serve the Doors. With it come their listening sockets.
    Serve(Box<Service>),
    /// Let nothing be created or started any more, and remove everything; containers have this long to
    /// end by themselves.
    Clear { grace: Duration },
    /// No process of the server is left. What has ended since then, in seconds since 1970, has ended with
    /// it.
    Emptied { since: i64 },
    /// The proof is on record: leave.
    Dismiss,
}

/// All that a porter has to know, also when nobody is left to tell it more.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Service {
    /// What is put on all that is created.
    pub(crate) labels: Labels,
    /// How many containers there may be at a time in each engine.
    pub(crate) cap: Option<NonZeroUsize>,
    pub(crate) ways: Ways,
    /// The podman command that is wrapped, if one is.
    pub(crate) podman: Option<Wrapped>,
    /// The owner's directory, where the notes are.
    pub(crate) book: PathBuf,
    /// What the docker command needs to reach the engine, if that is behind ssh.
    pub(crate) surroundings: Vec<(OsString, OsString)>,
    /// Until what is still there is told.
    pub(crate) limit: Duration,
    /// How long an engine may go on with creates that nobody counts any more.
    pub(crate) late_create: Duration,
}

/// A podman command with a wrapper in its place.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Wrapped {
    /// The real one, as the server's wrapper executes it.
    pub(crate) program: PathBuf,
    /// The real one, as ostler asks it.
    pub(crate) podman: Podman,
    /// The program that we are.
    pub(crate) own: PathBuf,
    /// Whether it asks no service unless it is told to.
    pub(crate) is_local: bool,
}

/// The podman command, and how ostler calls it. Nothing of it comes from a server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Podman {
    /// `None`: there is no such command.
    pub(crate) program: Option<PathBuf>,
    pub(crate) env: Vec<(OsString, OsString)>,
    /// Whether that is the environment that the server was started with.
    pub(crate) is_servers: bool,
    pub(crate) way: Way,
}

/// How a podman command is run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Way {
    /// As a child: the caller is inside the server's fence.
    Direct,
    /// In a fence of its own, of at least this level.
    Fenced(Level, GuardianProgram),
}

impl Podman {
    /// The level of the fence in which it runs.
    pub(crate) fn level(&self) -> Level {
        match self.way {
            Way::Direct => Level::Tree,
            Way::Fenced(level, _) => level,
        }
    }
}

/// From the porter to the guardian.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Report {
    /// A container that was meant to go on by itself is gone.
    Removed(RemovedContainer),
    /// This is still there, or may be; the porter goes on.
    Remaining(EngineResidue),
    /// How the engines take it together, whenever that changes.
    Engine(EngineState),
    /// No engine has anything of the instance.
    Cleared,
}
