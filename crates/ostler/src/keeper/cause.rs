//! Why an instance ends, and what its callers are told.

use std::fmt;
use std::process::ExitStatus;
use std::time::Duration;

/// Why an instance was ended, or has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// The call, session or agent that it belonged to is over.
    ScopeClosed,
    /// The call that it was started for has its answer.
    Returned,
    /// It was started to learn what its server offers. That is known, and the client that wanted to know has left.
    Listed,
    /// Nobody has used it for as long as its server allows.
    Idle,
    /// Its server is configured differently now.
    Replaced,
    /// Its server is no longer configured.
    Removed,
    /// Others wait for its place, and nobody used it.
    Evicted,
    /// Everybody who waited for it has given up.
    Abandoned,
    /// Somebody asked for its end.
    Operator,
    /// The keeper ends.
    KeeperClosed,
    /// It has exited by itself.
    Exited,
    /// Its program could not be started.
    NotStarted(String),
    /// It did not do what a server has to.
    Unhealthy(Fault),
}

/// What is wrong with a server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// It was not ready in time.
    #[error("it was not ready within {0:?}")]
    NotReady(Duration),
    /// The handshake failed.
    #[error("the handshake failed: {0}")]
    Handshake(String),
    /// A line of its output is longer than allowed.
    #[error("a line of its output is longer than {0} bytes")]
    LongLine(usize),
    /// It does not read its input.
    #[error("it has not read its input for {0:?}")]
    NotReading(Duration),
    /// It has closed its output.
    #[error("it has closed its output")]
    OutputClosed,
    /// It has closed its input.
    #[error("it has closed its input")]
    InputClosed,
    /// Its guardian was killed, so that it was ended without one.
    #[error("its guardian was killed")]
    GuardianKilled,
    /// It runs elsewhere and can't be spoken with any more.
    #[error("{0}")]
    Lost(String),
    /// A call took longer than allowed, and nothing at all was heard meanwhile.
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
    /// Whether it counts against the server: the next start is delayed by a backoff.
    pub fn is_failure(&self) -> bool {
        matches!(self, Self::Exited | Self::NotStarted(_) | Self::Unhealthy(_))
    }
}

/// How an instance ended, for those who used it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    /// What people call the server.
    pub server: String,
    /// Why.
    pub cause: Cause,
    /// Its exit status, if it is known already.
    pub status: Option<ExitStatus>,
    /// The end of what it wrote to stderr.
    pub stderr: String,
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
