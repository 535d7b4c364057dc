//! Backends: what instances are made of. The library has processes and remote servers; a host can add its own,
//! such as the pods of a cluster.
//!
//! A [`Backend`] starts instances, and finds and ends those whose owner has died. A [`Hold`] is the keeper's
//! handle on one started instance. The code above knows of an instance only its byte streams, its events
//! ([`Event`]) and the proof that it has ended.
//!
//! A ledger entry names its backend, and only that backend can prove its end: a reboot ends a process, but not
//! a pod. [`Backends`] is the set of all backends that a program knows.
//!
//! Commands have no hold on the instances that they show and end. They ask the backend with the ledger entry: for
//! what a dead owner left ([`Backend::list`]), for a description ([`Backend::describe`]), and whether a pid or another
//! name is part of the instance ([`Backend::part`]). The backend replies with lines for people and fields for programs,
//! in its own terms. The proof that nothing is left comes with the end itself: as [`Event::Empty`], or as the
//! [`Outcome`] of [`Hold::rescue`] and [`Backend::end`].
//!
//! `tests/contract` tests the contract of this trait against any backend.

mod all;
mod process;
mod readiness;
mod remote;

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};

pub use all::Backends;
pub use process::Processes;
pub use remote::{Conversation, Remote, RemoteEnds, Remotes};

pub use crate::evidence::{Evidence, Fields, Part, Role, Traces};
pub use crate::whereabouts::Whereabouts;

use crate::event::Event;
use crate::fence::StartError;
use crate::id::InstanceId;
use crate::instance::Owner;
use crate::ladder::Step;
use crate::ledger::{Book, Entry, PROCESS};
use crate::outcome::Outcome;
use crate::snapshot::View;
use crate::spec::ServerSpec;
use crate::terms::Terms;

/// Future that a backend returns.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;
/// Write end of a server's stdin.
pub type Input = Box<dyn AsyncWrite + Send + Unpin>;
/// Read end of a server's stdout or stderr.
pub type Output = Box<dyn AsyncRead + Send + Unpin>;

/// What a server runs on.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Target {
    /// A process of this machine.
    Run(ServerSpec),
    /// A remote server.
    Reach(Arc<dyn Remote>),
    /// An instance of another backend.
    On {
        /// The backend's name.
        backend: String,
        /// The command.
        spec: ServerSpec,
    },
}

impl Target {
    /// Name of the backend that starts it.
    pub fn backend(&self) -> &str {
        match self {
            Self::Run(_) => PROCESS,
            Self::Reach(_) => remote::NAME,
            Self::On { backend, .. } => backend,
        }
    }
}

/// Request to start an instance.
#[derive(Clone, Debug)]
pub struct StartOrder {
    /// The command to run, or the remote server to reach.
    pub target: Target,
    /// Containment, time limits and resources.
    pub terms: Terms,
    /// Number of containers that the instance counts for.
    pub containers: usize,
    /// The owner with its ledger. A backend whose instances outlive a killed owner records an intent
    /// before it starts anything.
    pub owner: Owner,
}

/// A started instance. Dropping its hold stops it.
pub struct Started {
    /// Its id.
    pub id: InstanceId,
    /// The keeper's handle on it.
    pub hold: Box<dyn Hold>,
    /// Write end of its stdin; dropping it closes stdin.
    pub stdin: Input,
    /// Read end of its stdout.
    pub stdout: Output,
    /// Read end of its stderr.
    pub stderr: Output,
}

impl fmt::Debug for Started {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Started").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Starts instances, and proves that they are gone.
pub trait Backend: fmt::Debug + Send + Sync {
    /// Its unique name, as ledger entries contain it.
    fn name(&self) -> &str;

    /// Starts an instance. [`Hold::poll_event`] reports what becomes of it. If the future is dropped,
    /// nothing of the instance may stay.
    fn start(&self, order: StartOrder) -> BoxFuture<Result<Started, StartError>>;

    /// Lists what is left of a dead owner's instances, without ending anything. The book contains only
    /// entries of this backend.
    fn list(&self, left: Book) -> BoxFuture<BTreeMap<InstanceId, Evidence>>;

    /// Ends what is left of a dead owner's instances, within `limit` if possible, and returns the outcomes. An
    /// instance whose guardian is still ending it is left to that guardian, and left out of the result.
    fn end(&self, left: Book, limit: Duration) -> BoxFuture<BTreeMap<InstanceId, Outcome>>;

    /// Describes all open entries for display, of living and dead owners.
    fn describe(&self, books: Vec<Book>) -> BoxFuture<Vec<View>>;

    /// Asks an instance of another living owner to end. Returns whether the instance still has a guardian to ask.
    fn ask(&self, entry: &Entry) -> bool;

    /// Finds the part of an instance that people call `what`: the pid of a process, or another name of its own.
    fn part(&self, entry: &Entry, what: &str) -> Option<Part>;
}

/// The keeper's handle on an instance. Dropping it stops the instance, without waiting.
pub trait Hold: Send {
    /// The next event: first that it has started or was refused, last the proof that nothing is left
    /// ([`Event::Empty`]).
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Event>;

    /// Starts to stop it at `step` of the ladder. Later orders can only shorten the ladder.
    fn stop(&mut self, step: Step);

    /// Ends what is left after [`Event::GuardianLost`] and returns the outcome.
    fn rescue(self: Box<Self>) -> BoxFuture<Outcome>;

    /// Releases it once nothing is left.
    fn part(self: Box<Self>) -> BoxFuture<()>;
}
