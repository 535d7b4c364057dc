//! Messages between owner and guardian.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::porter::PorterConfig;
use crate::cgroup::Control;
use crate::containers::{EngineState, RemovedContainer};
use crate::id::InstanceId;
use crate::ladder::{Ladder, Step};
use crate::level::Level;
use crate::outcome::{Proof, Refusal, Residue};
use crate::resources::Excess;
use crate::spec::ServerSpec;
use crate::terms::Descriptors;

/// Sent by the owner to the guardian.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum GuardianOrder {
    /// Start the server. The message carries its stdin, stdout and stderr.
    Start(Box<Launch>),
    /// Stop the instance, from this step of the ladder on. An order can shorten a stop under way, never prolong it.
    Stop(Step),
    /// Take the next step of the ladder without waiting.
    Hurry,
    /// Exit: the owner has recorded the proof.
    Dismiss,
}

/// Everything the guardian needs until its end, because the owner may die before it can send more.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Launch {
    pub(crate) id: InstanceId,
    pub(crate) spec: ServerSpec,
    /// Where the guardian creates the leaf. The owner does not, so that its death leaves none behind.
    pub(crate) leaf: Option<PathBuf>,
    /// The resource limits with their cgroups, which the guardian creates too.
    pub(crate) controls: Vec<Control>,
    pub(crate) minimum: Level,
    pub(crate) descriptors: Descriptors,
    pub(crate) ladder: Ladder,
    pub(crate) orphan_ladder: Ladder,
    pub(crate) proof_limit: Duration,
    /// The owner's ledger directory, which the guardian settles if the owner dies. `None`: the launch is not recorded.
    pub(crate) book: Option<PathBuf>,
    /// `None`: the server may not use container engines.
    pub(crate) engine: Option<PorterConfig>,
    /// Path of the log that the guardian writes the server's stderr to, in place of the descriptor it gets.
    pub(crate) log: Option<PathBuf>,
    /// ostler's own directories, hidden from the server at `strict`.
    pub(crate) hidden: Vec<PathBuf>,
}

/// Sent by the guardian to the owner.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum GuardianReport {
    Started {
        pid: i32,
        level: Level,
    },
    Refused(Refusal),
    /// The server process has exited with this wait status; its descendants may still run.
    Exited(i32),
    /// SIGKILL has not emptied the fence within the proof limit; the guardian keeps trying.
    Remaining(Residue),
    /// The server hit a resource limit. Sent before `Empty`.
    Exceeded(Excess),
    /// The porter removed a running container that would have outlived its command (`docker run -d`).
    Removed(RemovedContainer),
    /// Progress of the container engines while containers are removed.
    Clearing(EngineState),
    /// Nothing of the instance is left.
    Empty(Proof),
}
