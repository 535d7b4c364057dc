//! Why a caller gets no instance, in the words that the caller's user reads.

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
    /// The caller's scope was closed.
    #[error("the session is over")]
    ScopeClosed,
    /// The keeper was closed.
    #[error("the keeper has ended")]
    KeeperClosed,
    /// The queue is full.
    #[error("{server}: the queue is full, {waiting} callers wait; {holders}")]
    QueueFull {
        /// The server that was asked for.
        server: String,
        /// Number of callers in the queue.
        waiting: usize,
        /// The instances that the queued callers wait for.
        holders: Holders,
    },
    /// The caller's time in the queue ran out.
    #[error("{server}: not started within {waited:?}: {obstacle}")]
    TimedOut {
        /// The server that was asked for.
        server: String,
        /// How long the caller waited.
        waited: Duration,
        /// What prevented the start.
        obstacle: Obstacle,
    },
    /// The server keeps failing, and its backoff outlasts the caller's time in the queue.
    #[error("{server}: failures in a row: {failures}, next try in {wait:?}; {last}")]
    BackingOff {
        /// The server that was asked for.
        server: String,
        /// Number of failures in a row.
        failures: u32,
        /// Time until the next start is allowed.
        wait: Duration,
        /// The latest failure.
        last: Arc<Ending>,
    },
    /// The instance failed before it was ready.
    #[error(transparent)]
    Failed(Arc<Ending>),
}

/// What prevents the start of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Obstacle {
    /// The instance is starting, but is not ready yet.
    Starting,
    /// The previous instance of the same agent or session has not ended yet.
    Predecessor,
    /// The server has failed and its backoff is not over.
    Backoff,
    /// The cap on instances of this server is reached.
    ServerCap(Holders),
    /// The cap on all instances is reached.
    Instances(Holders),
    /// The cap on containers is reached.
    Containers(Holders),
    /// The caller's principal already has its share of a cap.
    Share(Holders),
    /// The limit on simultaneous starts is reached.
    Starts,
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Starting => f.write_str("it is still starting"),
            Self::Predecessor => f.write_str("its previous instance has not ended yet"),
            Self::Backoff => f.write_str("it failed, and its backoff is not over yet"),
            Self::ServerCap(holders) => write!(f, "its cap is reached; {holders}"),
            Self::Instances(holders) => write!(f, "the cap on instances is reached; {holders}"),
            Self::Containers(holders) => write!(f, "the cap on containers is reached; {holders}"),
            Self::Share(holders) => {
                write!(f, "its principal has used its share of a cap; {holders}")
            }
            Self::Starts => f.write_str("too many servers are starting at the same time"),
        }
    }
}

/// Instances that hold a capped slot, as far as the reader may know them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holders {
    /// Some instances and their users. Instances of other principals are left out for a named principal.
    pub named: Vec<String>,
    /// Number of instances that `named` leaves out.
    pub others: usize,
}

/// Longest list of instances in an error message.
const NAMED: usize = 5;

impl Holders {
    /// `named` is cut to a few entries; `all` is the number of instances including the unnamed.
    pub(super) fn of(named: impl Iterator<Item = String>, all: usize) -> Self {
        let named: Vec<String> = named.take(NAMED).collect();
        let others = all.saturating_sub(named.len());
        Self { named, others }
    }
}

impl fmt::Display for Holders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&*self.named, self.others) {
            ([], others) => write!(f, "held by {others} instances of other principals"),
            (named, 0) => write!(f, "held by: {}", named.join("; ")),
            (named, others) => write!(f, "held by: {} and {others} more", named.join("; ")),
        }
    }
}
