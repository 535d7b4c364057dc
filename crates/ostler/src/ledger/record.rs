//! The lines of a ledger.

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

/// The backend of processes of this machine. Ledgers that are older than other backends do not name it.
pub const PROCESS: &str = "process";

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum Record {
    /// Whose ledger this is; the first line.
    Owner(OwnerRecord),
    /// Something is about to be started.
    Intent(Intent),
    /// It was.
    Started(Start),
    /// It is over, or believed to be.
    Ended {
        /// Which one.
        instance: InstanceId,
        /// How.
        end: End,
    },
}

/// A process that starts servers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OwnerRecord {
    /// Never used twice.
    pub id: OwnerId,
    /// The process.
    pub process: Identity,
    /// What it is, for people: `ostler run`, or the name of a host.
    pub program: String,
    /// Who started it, for people.
    pub client: Option<Client>,
    /// The boot in which the pids mean something.
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

/// What is about to be started. Neither arguments nor environment: they carry secrets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Intent {
    /// Which one.
    pub instance: InstanceId,
    /// What people call the server.
    pub name: String,
    /// The program.
    pub program: String,
    /// The backend that starts it, and is asked about it.
    #[serde(default = "process", skip_serializing_if = "is_process")]
    pub backend: String,
    /// What that backend needs to find it again, in its own words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub handle: String,
    /// The leaf that may be made for it.
    pub leaf: Option<PathBuf>,
    /// The cgroups that may be made to limit it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cgroups: Vec<PathBuf>,
    /// Its ways to containers.
    #[serde(default, skip_serializing_if = "Ways::is_none")]
    pub ways: Ways,
    /// Milliseconds since 1970.
    pub at: u64,
}

impl Intent {
    /// Of an instance that has none of what only processes have.
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

/// What was started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// Which one.
    pub instance: InstanceId,
    /// Where it is.
    #[serde(flatten)]
    pub whereabouts: Whereabouts,
    /// How firmly it is held, if it is a process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<Level>,
}

/// How an instance ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// It was never started.
    Refused,
    /// Nothing is left.
    Gone(Proof),
    /// Something is, or may be.
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
    /// Whether there is nothing more to do.
    pub fn is_settled(&self) -> bool {
        match self {
            // Nothing more can be found out about it: what carries the mark is gone.
            Self::Refused | Self::Gone(_) | Self::Unverified(Residue::Unwatched) => true,
            Self::Unverified(Residue::Processes(_) | Residue::Engine(_) | Residue::Other(_)) => {
                false
            }
        }
    }
}
