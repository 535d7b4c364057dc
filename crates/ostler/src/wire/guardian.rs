//! What owner and guardian say to each other over the control socket.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::porter::Service;
use crate::cgroup::Control;
use crate::containers::{EngineState, RemovedContainer};
use crate::id::InstanceId;
use crate::ladder::{Ladder, Step};
use crate::level::Level;
use crate::outcome::{Proof, Refusal, Residue};
use crate::resources::Excess;
use crate::spec::ServerSpec;
use crate::terms::Descriptors;

/// From the owner to the guardian.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Start the server. With it come its stdin, stdout and stderr.
    Start(Box<Launch>),
    /// Take the instance down, from this step on. Orders that ask for less change nothing.
    Stop(Step),
    /// Take the next step without waiting.
    Hurry,
    /// The proof is on record: leave.
    Dismiss,
}

/// All that the guardian has to know, because its owner may die before it can tell more.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Launch {
    pub(crate) id: InstanceId,
    pub(crate) spec: ServerSpec,
    /// Where a leaf may be made. The guardian makes it, so that no death of the owner leaves one.
    pub(crate) leaf: Option<PathBuf>,
    /// What limits it, and where. The guardian makes the cgroups for that, too.
    pub(crate) controls: Vec<Control>,
    pub(crate) minimum: Level,
    pub(crate) descriptors: Descriptors,
    pub(crate) ladder: Ladder,
    pub(crate) orphan_ladder: Ladder,
    pub(crate) proof_limit: Duration,
    /// The owner's directory, to be settled if the owner can't. `None`: the launch is on no record.
    pub(crate) book: Option<PathBuf>,
    /// The server's way to a container engine, if it has one.
    pub(crate) engine: Option<Service>,
    /// The directories of ostler's own that the server must not see. Only `strict` can hide them.
    pub(crate) hidden: Vec<PathBuf>,
}

/// From the guardian to the owner.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Report {
    Started {
        pid: i32,
        level: Level,
    },
    Refused(Refusal),
    /// The server itself has ended, with this wait status; what it caused may still be there.
    Exited(i32),
    /// KILL has not emptied the fence in time; the guardian goes on.
    Remaining(Residue),
    /// A limit has had its effect. Told before the fence is empty.
    Exceeded(Excess),
    /// A container that was meant to go on by itself is gone.
    Removed(RemovedContainer),
    /// How an engine takes it that containers have to go.
    Clearing(EngineState),
    Empty(Proof),
}
