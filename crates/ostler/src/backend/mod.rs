//! The seam below which instances live: processes of this machine, remote servers, and whatever else a
//! host brings along, such as the pods of a cluster.
//!
//! A [`Backend`] starts instances, and is asked about those whose owner has died. A [`Hold`] is a keeper's
//! hold on one instance that was started. Nothing above the seam knows what an instance is made of: it has
//! byte streams, it says what happens to it ([`Event`]), and it ends with a proof that its backend gives.
//!
//! A ledger entry names its backend, and only that backend is asked for the proof of its end: a process is
//! gone when the machine was started again, a pod is not. [`Backends`] are all that a program knows.
//!
//! Commands have no hold on the instances that they show and end. They ask the backend with the ledger entry: what
//! there is of a dead owner's instances ([`Backend::list`]), what to show ([`Backend::describe`]), whether a pid or
//! another name is part of one ([`Backend::part`]). Answers are lines for people and fields for programs, in the
//! backend's own terms. The proof that nothing is left comes with the end itself: as [`Event::Empty`], or as the
//! [`Outcome`] of [`Hold::rescue`] and [`Backend::end`].
//!
//! `tests/contract` is the contract in executable form and takes any backend.

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

/// What a backend works on.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;
/// The keeper's end of a server's input.
pub type Input = Box<dyn AsyncWrite + Send + Unpin>;
/// The keeper's end of a server's output.
pub type Output = Box<dyn AsyncRead + Send + Unpin>;

/// What a server is.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Target {
    /// A process that is started on this machine.
    Run(ServerSpec),
    /// A remote server.
    Reach(Arc<dyn Remote>),
    /// Something that another backend runs.
    On {
        /// The backend's name.
        backend: String,
        /// What it runs.
        spec: ServerSpec,
    },
}

impl Target {
    /// Which backend starts it.
    pub fn backend(&self) -> &str {
        match self {
            Self::Run(_) => PROCESS,
            Self::Reach(_) => remote::NAME,
            Self::On { backend, .. } => backend,
        }
    }
}

/// What is to be started.
#[derive(Clone, Debug)]
pub struct StartOrder {
    /// What to run or reach.
    pub target: Target,
    /// On what terms.
    pub terms: Terms,
    /// How many containers an instance of it is.
    pub containers: usize,
    /// Who starts it, with its ledger. A backend whose instances outlive a killed owner writes an intent
    /// into it before it starts anything.
    pub owner: Owner,
}

/// An instance that was started. It ends when its hold is dropped.
pub struct Started {
    /// Which one it is.
    pub id: InstanceId,
    /// The hold on it.
    pub hold: Box<dyn Hold>,
    /// What the keeper writes, the server reads. It is dropped to end the server's input.
    pub stdin: Input,
    /// What the server writes, the keeper reads.
    pub stdout: Output,
    /// The server's complaints.
    pub stderr: Output,
}

impl fmt::Debug for Started {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Started").field("id", &self.id).finish_non_exhaustive()
    }
}

/// A way to start instances and to be sure that they are gone.
pub trait Backend: fmt::Debug + Send + Sync {
    /// What ledger entries of its instances call it. No other backend has the same name.
    fn name(&self) -> &str;

    /// Starts an instance. What becomes of it is told by [`Hold::poll_event`]. If the future is dropped,
    /// nothing stays.
    fn start(&self, order: StartOrder) -> BoxFuture<Result<Started, StartError>>;

    /// Lists what there is of a dead owner's instances. Nothing is touched. The book has only entries of
    /// this backend.
    fn list(&self, left: Book) -> BoxFuture<BTreeMap<InstanceId, Evidence>>;

    /// Ends what is left of a dead owner's instances, within `limit` if it can, and says what it can prove. An
    /// instance whose guardian still works on it is left to that guardian and not part of the answer.
    fn end(&self, left: Book, limit: Duration) -> BoxFuture<BTreeMap<InstanceId, Outcome>>;

    /// Describes all open entries for people, of the living and the dead.
    fn describe(&self, books: Vec<Book>) -> BoxFuture<Vec<View>>;

    /// Asks an instance of another living owner to end. Returns whether the instance still has a guardian to ask.
    fn ask(&self, entry: &Entry) -> bool;

    /// Finds the part of an instance that people call `what`: the pid of a process, or another name of its own.
    fn part(&self, entry: &Entry, what: &str) -> Option<Part>;
}

/// A keeper's hold on an instance. Dropping it ends the instance, without waiting.
pub trait Hold: Send {
    /// What happens to it: first that it has started or was refused, last that nothing is left
    /// ([`Event::Empty`]), with the proof.
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Event>;

    /// Begins the way down at `step`. Later orders can only shorten it.
    fn stop(&mut self, step: Step);

    /// Ends what is left after [`Event::GuardianLost`], and says what it can prove.
    fn rescue(self: Box<Self>) -> BoxFuture<Outcome>;

    /// Takes leave of it once nothing is left.
    fn part(self: Box<Self>) -> BoxFuture<()>;
}
