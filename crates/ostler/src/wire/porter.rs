//! Messages between guardian and porter.

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::containers::{EngineResidue, EngineState, Labels, RemovedContainer, Ways};
use crate::level::Level;
use crate::terms::GuardianProgram;

/// Sent by the guardian to the porter.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum PorterOrder {
    /// Serve the Doors. The message carries their listening sockets.
    Serve(Box<PorterConfig>),
    /// Refuse creates and starts from now on, and remove all containers; running ones get this long to stop.
    Clear { grace: Duration },
    /// No process of the server is left. A container that stopped after `since`, in seconds since 1970, was stopped
    /// by this teardown.
    Emptied { since: i64 },
    /// Exit: the proof is recorded.
    Dismiss,
}

/// Everything a porter needs until its end, because its guardian may die before it can send more.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PorterConfig {
    /// Put on everything that the server creates.
    pub(crate) labels: Labels,
    /// Most containers at a time in each engine.
    pub(crate) cap: Option<NonZeroUsize>,
    pub(crate) ways: Ways,
    /// The podman command that has a wrapper on the server's `PATH`, if any.
    pub(crate) podman: Option<WrappedPodman>,
    /// The owner's ledger directory, which also holds the notes.
    pub(crate) book: PathBuf,
    /// The porter's environment: what the docker command needs to reach an engine by ssh.
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// How long clearing may take before the porter reports the rest as residue.
    pub(crate) limit: Duration,
    /// How long a container may still appear from a create whose response was lost with an earlier porter.
    pub(crate) late_create: Duration,
}

/// A podman command that the server reaches through our wrapper.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct WrappedPodman {
    /// The real command, which the wrapper executes for the server.
    pub(crate) program: PathBuf,
    /// The real command as ostler itself calls it.
    pub(crate) podman: Podman,
    /// Path of our own executable, the wrapper's interpreter.
    pub(crate) own: PathBuf,
    /// Whether the command works without a podman service by default.
    pub(crate) is_local: bool,
}

/// How ostler itself calls podman. Nothing in it can be set by a server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Podman {
    /// `None`: podman is not installed.
    pub(crate) program: Option<PathBuf>,
    pub(crate) env: Vec<(OsString, OsString)>,
    /// Whether `env` is the environment that the server was started with.
    pub(crate) is_servers: bool,
    pub(crate) way: PodmanCall,
}

/// How ostler executes podman.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum PodmanCall {
    /// As a plain child: the caller already runs inside the server's fence.
    Direct,
    /// In a fence of its own, at this level at least.
    Fenced(Level, GuardianProgram),
}

impl Podman {
    /// The minimum level of the fence in which podman runs.
    pub(crate) fn level(&self) -> Level {
        match self.way {
            PodmanCall::Direct => Level::Tree,
            PodmanCall::Fenced(level, _) => level,
        }
    }
}

/// Sent by the porter to the guardian.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum PorterReport {
    /// The porter removed a running container that would have outlived its command (`docker run -d`).
    Removed(RemovedContainer),
    /// This still exists, or may exist, after the limit; the porter keeps trying.
    Remaining(EngineResidue),
    /// Combined progress of all engines; sent on every change.
    Engine(EngineState),
    /// No engine holds anything of the instance.
    Cleared,
}
