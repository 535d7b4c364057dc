//! Why somebody does not get an instance.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::keeper::cause::Ending;

/// Why there is no lease.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// No server of this name is configured.
    #[error("no server is called {0}")]
    UnknownServer(String),
    /// Who asks has ended.
    #[error("the session is over")]
    ScopeClosed,
    /// The keeper has ended.
    #[error("the keeper has ended")]
    KeeperClosed,
    /// Too many wait already.
    #[error("{server}: the queue is full, {waiting} callers wait; {holders}")]
    QueueFull {
        /// The server that was asked for.
        server: String,
        /// How many wait.
        waiting: usize,
        /// Who has what everybody waits for.
        holders: Holders,
    },
    /// It was not started in time.
    #[error("{server}: not started within {waited:?}: {obstacle}")]
    TimedOut {
        /// The server that was asked for.
        server: String,
        /// How long the caller has waited.
        waited: Duration,
        /// What was in the way.
        obstacle: Obstacle,
    },
    /// It keeps failing, and is not tried again as soon as the caller would need it.
    #[error("{server}: failures in a row: {failures}, next try in {wait:?}; {last}")]
    BackingOff {
        /// The server that was asked for.
        server: String,
        /// How many times in a row.
        failures: u32,
        /// When it is tried again.
        wait: Duration,
        /// How it failed the last time.
        last: Arc<Ending>,
    },
    /// It was started, and failed before it was ready.
    #[error(transparent)]
    Failed(Arc<Ending>),
}

/// What keeps an instance from being started.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Obstacle {
    /// Nothing but the time that its start takes.
    Starting,
    /// Its predecessor has not ended yet.
    Predecessor,
    /// It has failed, and has to wait.
    Backoff,
    /// There may be no more instances of this server.
    ServerCap(Holders),
    /// There may be no more instances.
    Instances(Holders),
    /// There may be no more containers.
    Containers(Holders),
    /// The principal of the caller has its share of a cap already.
    Share(Holders),
    /// Enough are being started.
    Starts,
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Starting => f.write_str("its start takes longer"),
            Self::Predecessor => f.write_str("its predecessor has not ended yet"),
            Self::Backoff => f.write_str("it has failed and is not tried again yet"),
            Self::ServerCap(holders) => write!(f, "its cap is reached; {holders}"),
            Self::Instances(holders) => write!(f, "the cap on instances is reached; {holders}"),
            Self::Containers(holders) => write!(f, "the cap on containers is reached; {holders}"),
            Self::Share(holders) => {
                write!(f, "its principal has used its share of a cap; {holders}")
            }
            Self::Starts => f.write_str("too many others are being started"),
        }
    }
}

/// Who holds instances: at most a few of them by name, and none of another principal to a named one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holders {
    /// Instances with those who use them.
    pub named: Vec<String>,
    /// How many more there are.
    pub others: usize,
}

/// More than these help nobody.
const NAMED: usize = 5;

impl Holders {
    /// Some of `all` instances by these names.
    pub(super) fn of(named: impl Iterator<Item = String>, all: usize) -> Self {
        let named: Vec<String> = named.take(NAMED).collect();
        let others = all.saturating_sub(named.len());
        Self { named, others }
    }
}

impl fmt::Display for Holders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&*self.named, self.others) {
            ([], others) => write!(f, "held by {others} instances of others"),
            (named, 0) => write!(f, "held by: {}", named.join("; ")),
            (named, others) => write!(f, "held by: {} and {others} more", named.join("; ")),
        }
    }
}
