//! Why an instance stops, and the message its callers get.

use std::fmt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use crate::outcome::Refusal;

/// Why an instance stops or has stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// The agent or session that it belonged to was closed.
    ScopeClosed,
    /// The lease of the one call that it was started for was released.
    Returned,
    /// It was started to list what its server offers; the listing is done and the client has left.
    Listed,
    /// It was unused for the idle limit of its server.
    Idle,
    /// The configuration of its server has changed.
    Replaced,
    /// Its server was removed from the configuration.
    Removed,
    /// It was idle, and another start needed its slot.
    Evicted,
    /// All callers that waited for its start have given up.
    Abandoned,
    /// An operator, or another process, stopped it.
    Operator,
    /// The keeper was closed.
    KeeperClosed,
    /// Its process exited.
    Exited,
    /// It could not be started.
    NotStarted(NotStarted),
    /// It broke a rule for servers.
    Unhealthy(Fault),
}

/// Why an instance could not be started.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotStarted {
    /// It was refused before its program ran.
    Refused {
        /// The refusal.
        refusal: Refusal,
        /// The directories that were searched for the program, if it was not found in them.
        searched: Option<String>,
    },
    /// The start failed for this reason.
    Failed(String),
}

impl fmt::Display for NotStarted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { refusal, searched: Some(searched) } => {
                write!(f, "{refusal}: {searched}")
            }
            Self::Refused { refusal, searched: None } => refusal.fmt(f),
            Self::Failed(reason) => f.write_str(reason),
        }
    }
}

/// Fault of a server that makes the keeper stop its instance.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// It exceeded its start limit.
    #[error("it was not ready within {0:?}")]
    NotReady(Duration),
    /// The handshake failed.
    #[error("the handshake failed: {0}")]
    Handshake(String),
    /// A line of its output is longer than allowed.
    #[error("a line of its output is longer than {0} bytes")]
    LongLine(usize),
    /// It exceeded its write limit: it reads no input.
    #[error("it has not read its input for {0:?}")]
    NotReading(Duration),
    /// It closed its output.
    #[error("it has closed its output")]
    OutputClosed,
    /// It closed its input.
    #[error("it has closed its input")]
    InputClosed,
    /// Its guardian was killed; the keeper stops what is left without it.
    #[error("its guardian was killed")]
    GuardianKilled,
    /// The connection to a remote server was lost, for this reason.
    #[error("{0}")]
    Lost(String),
    /// A call exceeded its limit and the server sent nothing meanwhile.
    #[error("it was silent for {0:?}")]
    Silent(Duration),
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ScopeClosed => "its session is over",
            Self::Returned => "its call is over",
            Self::Idle => "it was idle",
            Self::Replaced => "its configuration has changed",
            Self::Removed => "it is no longer configured",
            Self::Evicted => "it was idle and others needed its place",
            Self::Listed => "it has listed what it offers, and its client has left",
            Self::Abandoned => "no caller waits for it any more",
            Self::Operator => "an operator stopped it",
            Self::KeeperClosed => "its keeper ended",
            Self::Exited => "it has exited",
            Self::NotStarted(reason) => return write!(f, "it could not be started: {reason}"),
            Self::Unhealthy(fault) => return fault.fmt(f),
        })
    }
}

impl Cause {
    /// Whether it is a failure of the server, which delays the next start by a backoff.
    pub fn is_failure(&self) -> bool {
        matches!(self, Self::Exited | Self::NotStarted(_) | Self::Unhealthy(_))
    }
}

/// What an instance runs or reaches, for messages and without secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetView {
    /// A command.
    Command(Arc<str>),
    /// The address of a remote server.
    Address(Arc<str>),
}

/// How an instance ended, as its callers are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    /// Name of the server.
    pub server: String,
    /// Why it ended.
    pub cause: Cause,
    /// Exit status, if known when the callers were told.
    pub status: Option<ExitStatus>,
    /// Last output on stderr, at most [`ServerLimits::stderr`](super::ServerLimits::stderr) bytes.
    pub stderr: String,
    /// Start of the first line on stdout that is not a message; `None` if it had become ready.
    pub stray: Option<String>,
    /// What was run or reached.
    pub target: TargetView,
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.server, self.cause)?;
        if let Some(status) = self.status {
            write!(f, " ({status})")?;
        }
        match self.stderr.trim() {
            "" => Ok(()),
            stderr => write!(f, "; last lines of its stderr: {stderr}"),
        }
    }
}

impl std::error::Error for Ending {}
