//! How a start or a stop ended: refusal, proof or residue.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::containers::EngineResidue;
use crate::identity::Process;
use crate::level::Level;
use crate::spec::ServerSpec;

/// Proof that nothing of an instance is left.
///
/// A proof names the reason why no process is left. If there may have been containers, it is given only
/// after their engine has listed none of them, twice, with no create request under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Proof {
    /// The guardian, which adopts all orphans below it, has no child process of the server any more.
    NoChild,
    /// Like [`Proof::NoChild`], and the leaf cgroup was empty and could be removed.
    NoChildAndEmptyLeaf,
    /// The guardian was killed; the leaf cgroup was empty and could be removed.
    EmptyLeaf,
    /// The guardian was killed; the init of the PID namespace has ended, which the kernel allows only
    /// after every other process in it.
    EndedNamespace,
    /// The machine was rebooted, which no process survives.
    AnotherBoot,
    /// A remote server: all connections to it are closed.
    Disconnected,
    /// Proof of another backend, as text.
    Other(String),
}

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Other(proof) => proof,
            Self::NoChild => "no process is left below its guardian",
            Self::NoChildAndEmptyLeaf => {
                "no process is left below its guardian, and its leaf was empty"
            }
            Self::EmptyLeaf => "its leaf was empty",
            Self::EndedNamespace => "its namespace has ended",
            Self::AnotherBoot => "the machine was rebooted",
            Self::Disconnected => "no connection to it is left",
        })
    }
}

/// What may be left of an instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Residue {
    /// These processes survived KILL.
    Processes(Vec<Process>),
    /// The guardian was killed and there was no leaf cgroup. All processes with the instance's mark are
    /// gone; processes that have cleared their environment cannot be found.
    Unwatched,
    /// No process is left; a container engine has something of it, or may have.
    Engine(EngineResidue),
    /// Residue of another backend, as text.
    Other(String),
}

impl fmt::Display for Residue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Processes(processes) if processes.is_empty() => {
                f.write_str("processes that cannot be listed")
            }
            Self::Processes(processes) => {
                let list: Vec<String> = processes.iter().map(ToString::to_string).collect();
                write!(f, "process {}", list.join(", "))
            }
            Self::Unwatched => f.write_str("processes that have cleared their environment, if any"),
            Self::Engine(residue) => residue.fmt(f),
            Self::Other(residue) => f.write_str(residue),
        }
    }
}

/// How an instance ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing is left.
    Gone(Proof),
    /// Something is left, or may be.
    Unverified(Residue),
}

impl Outcome {
    /// Combines it with the result of removing its containers.
    pub(crate) fn with_engine(self, cleared: Result<(), EngineResidue>) -> Self {
        match (self, cleared) {
            // Reports the worse of the two; the next sweep finds the other.
            (outcome @ Self::Unverified(Residue::Processes(_)), _) | (outcome, Ok(())) => outcome,
            (_, Err(residue)) => Self::Unverified(Residue::Engine(residue)),
        }
    }
}

/// Why a server was not started. The attempt leaves nothing behind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Refusal {
    /// The program does not exist.
    #[error("{program}: command not found")]
    NotFound {
        /// As configured.
        program: String,
    },
    /// The program exists, but the kernel cannot execute it.
    #[error("{program}: cannot be executed: {}", text(*.errno))]
    NotExecutable {
        /// As configured.
        program: String,
        /// Error number of the kernel.
        errno: i32,
    },
    /// The working directory cannot be used.
    #[error("working directory {path}: {}", text(*.errno))]
    WorkingDirectory {
        /// As configured.
        path: String,
        /// Error number of the kernel.
        errno: i32,
    },
    /// This machine does not support the requested containment level.
    #[error("containment '{level}' is not available here: {reason}")]
    Containment {
        /// The requested level.
        level: Level,
        /// Why not.
        reason: String,
    },
    /// A limit could not be set.
    #[error("cannot set the limit on {name}: {}", text(*.errno))]
    Limit {
        /// The limit.
        name: String,
        /// Error number of the kernel.
        errno: i32,
    },
    /// The server could not enter its leaf cgroup.
    #[error("the server could not enter its cgroup: {}", text(*.errno))]
    Leaf {
        /// Error number of the kernel.
        errno: i32,
    },
    /// The guardian's program had started threads before it became a guardian.
    #[error(
        "the guardian's program has already started threads: call ostler::guardian::run_if_asked() \
         first in main, not below #[tokio::main]"
    )]
    Threads,
    /// The socket of the server's Door could not be created.
    #[error("cannot create the socket {path} for its container engine: {}", text(*.errno))]
    Door {
        /// Path of the socket.
        path: String,
        /// Error number of the kernel.
        errno: i32,
    },
    /// The guardian's program cannot act as a porter.
    #[error(
        "the guardian's program was built without ostler's feature 'engine': choose engine 'off', or build it \
         with that feature"
    )]
    WithoutEngine,
    /// The guardian could not initialize.
    #[error("the guardian could not initialize: {}", text(*.errno))]
    Guardian {
        /// Error number of the kernel.
        errno: i32,
    },
    /// Another backend refused it, for this reason.
    #[error("{0}")]
    Other(String),
}

impl Refusal {
    pub(crate) fn exec(spec: &ServerSpec, error: &io::Error) -> Self {
        let program = spec.program.to_string_lossy().into_owned();
        // An inaccessible directory in PATH makes the kernel report EACCES instead of ENOENT.
        let unclear = [io::ErrorKind::NotFound, io::ErrorKind::PermissionDenied];
        if unclear.contains(&error.kind()) && !spec.program_exists() {
            Self::NotFound { program }
        } else {
            Self::NotExecutable { program, errno: errno(error) }
        }
    }

    pub(crate) fn working_directory(path: &Path, error: &io::Error) -> Self {
        Self::WorkingDirectory { path: path.display().to_string(), errno: errno(error) }
    }

    pub(crate) fn containment(level: Level, reason: &dyn Error) -> Self {
        let source = reason.source().map(|source| format!(": {source}"));
        Self::Containment { level, reason: format!("{reason}{}", source.unwrap_or_default()) }
    }

    pub(crate) fn limit(name: &str, error: &io::Error) -> Self {
        Self::Limit { name: name.to_owned(), errno: errno(error) }
    }

    pub(crate) fn door(path: &Path, error: &io::Error) -> Self {
        Self::Door { path: path.display().to_string(), errno: errno(error) }
    }

    #[expect(clippy::needless_pass_by_value, reason = "the shape that map_err asks for")]
    pub(crate) fn leaf(error: io::Error) -> Self {
        Self::Leaf { errno: errno(&error) }
    }

    #[expect(clippy::needless_pass_by_value, reason = "the shape that map_err asks for")]
    pub(crate) fn guardian(error: io::Error) -> Self {
        Self::Guardian { errno: errno(&error) }
    }
}

fn errno(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EINVAL)
}

fn text(errno: i32) -> String {
    let full = io::Error::from_raw_os_error(errno).to_string();
    full.split(" (os error").next().unwrap_or_default().to_lowercase()
}
