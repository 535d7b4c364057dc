//! What a fence can say: why nothing was started, why nothing is left, or what is.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::containers::EngineResidue;
use crate::identity::Process;
use crate::level::Level;
use crate::spec::ServerSpec;

/// Why we may say that a fence is empty.
///
/// It says why no process is left. If there may have been containers, it is said only when their
/// engine has listed none of them, twice, with no create under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Proof {
    /// The kernel told the guardian, parent of all that loses its parent, that it has no child of the
    /// server's.
    NoChild,
    /// The same, and the leaf was empty and could be removed.
    NoChildAndEmptyLeaf,
    /// The guardian was killed; the leaf was empty and could be removed.
    EmptyLeaf,
    /// The guardian was killed; the init of the PID namespace has ended, which the kernel lets it
    /// do only after everybody else in it.
    EndedNamespace,
    /// The machine was started again since, which no process survives.
    AnotherBoot,
    /// It runs elsewhere, and whoever spoke with it has ended with all connections.
    Disconnected,
    /// What another backend has to say.
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
            Self::AnotherBoot => "the machine was started again",
            Self::Disconnected => "no connection to it is left",
        })
    }
}

/// What may still be there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Residue {
    /// These did not go, although they were killed.
    Processes(Vec<Process>),
    /// The guardian was killed and there was no leaf: what carries the instance's mark is gone,
    /// what has cleared its environment can't be found.
    Unwatched,
    /// No process is left; an engine has something of it, or may have.
    Engine(EngineResidue),
    /// What another backend may have of it.
    Other(String),
}

impl fmt::Display for Residue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Processes(processes) if processes.is_empty() => {
                f.write_str("something that shows in no list of processes")
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
    /// The same when it is known what the engine has of it.
    pub(crate) fn with_engine(self, cleared: Result<(), EngineResidue>) -> Self {
        match (self, cleared) {
            // The worse of the two is told; whoever comes next finds the other one.
            (outcome @ Self::Unverified(Residue::Processes(_)), _) | (outcome, Ok(())) => outcome,
            (_, Err(residue)) => Self::Unverified(Residue::Engine(residue)),
        }
    }
}

/// Why a server was not started. Nothing is left of the attempt.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Refusal {
    /// There is no such program.
    #[error("{program}: command not found")]
    NotFound {
        /// As it was given.
        program: String,
    },
    /// The program is there, but the kernel will not execute it.
    #[error("{program}: cannot be executed: {}", text(*.errno))]
    NotExecutable {
        /// As it was given.
        program: String,
        /// What the kernel said.
        errno: i32,
    },
    /// The working directory can't be used.
    #[error("working directory {path}: {}", text(*.errno))]
    WorkingDirectory {
        /// As it was given.
        path: String,
        /// What the kernel said.
        errno: i32,
    },
    /// The machine does not offer the level of containment that was asked for.
    #[error("containment '{level}' is not available here: {reason}")]
    Containment {
        /// What was asked for.
        level: Level,
        /// Why not.
        reason: String,
    },
    /// A limit could not be set.
    #[error("the limit on {name} can't be set: {}", text(*.errno))]
    Limit {
        /// Which one.
        name: String,
        /// What the kernel said.
        errno: i32,
    },
    /// The server could not be put into its leaf.
    #[error("the server could not enter its cgroup: {}", text(*.errno))]
    Leaf {
        /// What the kernel said.
        errno: i32,
    },
    /// The host has started threads before it became a guardian, which only works while there is one.
    #[error(
        "the guardian's program has threads already: call ostler::guardian::run_if_asked() before \
         anything else in main, and not below #[tokio::main]"
    )]
    Threads,
    /// The server's own socket to its container engine could not be made.
    #[error("the socket {path} for its container engine can't be made: {}", text(*.errno))]
    Door {
        /// Where.
        path: String,
        /// What the kernel said.
        errno: i32,
    },
    /// The guardian's program can't be a porter.
    #[error(
        "the guardian's program was built without ostler's feature 'engine': choose engine 'off', or build it \
         with that feature"
    )]
    WithoutEngine,
    /// The guardian could not take up its post.
    #[error("the guardian could not initialize: {}", text(*.errno))]
    Guardian {
        /// What the kernel said.
        errno: i32,
    },
    /// Another backend has refused it, and why.
    #[error("{0}")]
    Other(String),
}

impl Refusal {
    pub(crate) fn exec(spec: &ServerSpec, error: &io::Error) -> Self {
        let program = spec.program.to_string_lossy().into_owned();
        // A directory of the path that may not be entered hides the plain truth behind EACCES.
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
