//! Records of a ledger, one JSON object per line.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::containers::Ways;
use crate::id::{InstanceId, OwnerId};
use crate::identity::Identity;
use crate::level::Level;
use crate::outcome::{Outcome, Proof, Residue};
use crate::spec::ServerSpec;
use crate::whereabouts::Whereabouts;

/// Name of the process backend. Old ledgers do not name a backend; this one is meant then.
pub const PROCESS: &str = "process";

/// One line of a ledger.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum Record {
    /// The owner; the first line.
    Owner(OwnerRecord),
    /// An instance is about to be started.
    Intent(Intent),
    /// An instance runs.
    Started(Start),
    /// An instance has ended, or something of it is left.
    Ended {
        /// The instance.
        instance: InstanceId,
        /// How it ended.
        end: End,
    },
}

/// A process that starts servers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OwnerRecord {
    /// Unique id.
    pub id: OwnerId,
    /// The process.
    pub process: Identity,
    /// Display name: `ostler run`, or the name of a host.
    pub program: String,
    /// Its parent process, for display.
    pub client: Option<Client>,
    /// Id of the boot in which its pids are valid.
    pub boot: String,
}

/// The process that started an owner.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Client {
    /// The process.
    pub process: Identity,
    /// Its name.
    pub name: String,
}

/// An instance that is about to be started. Omits arguments and environment, because they carry secrets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Intent {
    /// The instance.
    pub instance: InstanceId,
    /// Display name of the server.
    pub name: String,
    /// The program.
    pub program: String,
    /// The backend that starts it and later cleans it up.
    #[serde(default = "process", skip_serializing_if = "is_process")]
    pub backend: String,
    /// Opaque data with which the backend finds it again.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub handle: String,
    /// Path of the leaf cgroup that may be created for it.
    pub leaf: Option<PathBuf>,
    /// Paths of the cgroups that may be created to limit its resources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cgroups: Vec<PathBuf>,
    /// Container engines that it may reach.
    #[serde(default, skip_serializing_if = "Ways::is_none")]
    pub ways: Ways,
    /// Path of the log that its stderr goes to, if its guardian keeps one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<PathBuf>,
    /// Time of the intent, in milliseconds since 1970.
    pub at: u64,
}

impl Intent {
    /// An intent without the fields that only the process backend needs.
    pub fn new(instance: InstanceId, spec: &ServerSpec, backend: &str) -> Self {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            instance,
            name: spec.name.clone(),
            program: spec.program.to_string_lossy().into_owned(),
            backend: backend.to_owned(),
            handle: String::new(),
            leaf: None,
            cgroups: Vec::new(),
            ways: Ways::default(),
            log: None,
            at: u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX),
        }
    }
}

fn process() -> String {
    PROCESS.to_owned()
}

fn is_process(backend: &str) -> bool {
    backend == PROCESS
}

/// An instance that runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// The instance.
    pub instance: InstanceId,
    /// Its processes or its address.
    #[serde(flatten)]
    pub whereabouts: Whereabouts,
    /// Its containment level, if it is a process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<Level>,
}

/// How an instance ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The start was refused; the program never ran.
    Refused,
    /// It is proven gone.
    Gone(Proof),
    /// Something of it is left, or may be.
    Unverified(Residue),
}

impl From<&Outcome> for End {
    fn from(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Gone(proof) => Self::Gone(proof.clone()),
            Outcome::Unverified(residue) => Self::Unverified(residue.clone()),
        }
    }
}

impl End {
    /// Whether no cleanup remains to be done.
    pub fn is_settled(&self) -> bool {
        match self {
            // All marked processes are gone, and a sweep could not find others.
            Self::Refused | Self::Gone(_) | Self::Unverified(Residue::Unwatched) => true,
            Self::Unverified(Residue::Processes(_) | Residue::Engine(_) | Residue::Other(_)) => {
                false
            }
        }
    }
}
