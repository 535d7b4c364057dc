//! Servers that somebody else runs, somewhere: a keeper shares them like any other.
//!
//! There is no process, no guardian and nothing in the ledger. What a keeper holds of such an instance is a task
//! with connections, and the proof of its end is that this task has ended.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{DuplexStream, duplex};
use tokio::task::JoinHandle;
use tokio::time::Sleep;
use tokio_util::sync::CancellationToken;

use super::{Backend, BoxFuture, Evidence, Hold, Part, StartOrder, Started, Target, Whereabouts};
use crate::event::Event;
use crate::fence::StartError;
use crate::fingerprint::Fingerprint;
use crate::id::InstanceId;
use crate::ladder::Step;
use crate::ledger::{Book, Entry};
use crate::outcome::{Outcome, Proof};
use crate::snapshot::View;

/// As much as a pipe of the kernel holds.
const PIPE: usize = 64 << 10;

/// A server that somebody else runs. How it is spoken with is the host's.
pub trait Remote: fmt::Debug + Send + Sync {
    /// What people call it.
    fn name(&self) -> &str;

    /// Where it is, for people to see: never with a secret.
    fn place(&self) -> String;

    /// A hash of where it is reached and with which credentials.
    fn fingerprint(&self) -> Fingerprint;

    /// Carries messages there and back, as one instance. Returns when it is told to leave, or with the reason
    /// why it can't go on; it owns whatever it has begun, so that nothing is left when it is dropped.
    fn speak(&self, ends: RemoteEnds) -> Conversation;
}

/// A conversation with a remote server, and why it ended.
pub type Conversation = Pin<Box<dyn Future<Output = String> + Send>>;

/// The other ends of an instance's pipes, for whoever is the server in its place.
#[derive(Debug)]
pub struct RemoteEnds {
    /// What it is told, in lines.
    pub input: DuplexStream,
    /// What it says, in lines.
    pub output: DuplexStream,
    /// What it complains of.
    pub complaints: DuplexStream,
    /// Cancelled when it has to leave.
    pub leave: CancellationToken,
}

/// What ledger entries would call it, if there were any.
pub(super) const NAME: &str = "remote";

/// Starts sessions with remote servers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Remotes;

impl Backend for Remotes {
    fn name(&self) -> &str {
        NAME
    }

    fn start(&self, order: StartOrder) -> BoxFuture<Result<Started, StartError>> {
        Box::pin(async move {
            let Target::Reach(remote) = order.target else {
                return Err(StartError::OtherTarget(NAME));
            };
            start(&*remote, order.terms.limits.grace).map_err(StartError::Guardian)
        })
    }

    /// Connections end with the process that holds them, so that a dead owner has left none.
    fn list(&self, _: Book) -> BoxFuture<BTreeMap<InstanceId, Evidence>> {
        Box::pin(std::future::ready(BTreeMap::new()))
    }

    fn end(&self, left: Book, _: Duration) -> BoxFuture<BTreeMap<InstanceId, Outcome>> {
        let gone = |id| (id, Outcome::Gone(Proof::Disconnected));
        Box::pin(std::future::ready(left.entries.into_keys().map(gone).collect()))
    }

    fn describe(&self, _: Vec<Book>) -> BoxFuture<Vec<View>> {
        Box::pin(std::future::ready(Vec::new()))
    }

    fn ask(&self, _: &Entry) -> bool {
        false
    }

    fn part(&self, _: &Entry, _: &str) -> Option<Part> {
        None
    }
}

/// Begins a conversation. It may take `grace` to leave.
fn start(remote: &dyn Remote, grace: Duration) -> io::Result<Started> {
    let id = InstanceId::random()?;
    let (stdin, input) = duplex(PIPE);
    let (stdout, output) = duplex(PIPE);
    let (stderr, complaints) = duplex(PIPE);
    let leave = CancellationToken::new();
    let ends = RemoteEnds { input, output, complaints, leave: leave.clone() };
    let hold = Reached {
        place: Some(remote.place()),
        task: Task(tokio::spawn(remote.speak(ends))),
        reason: None,
        leave,
        grace,
        deadline: None,
    };
    let (stdin, stdout, stderr) = (Box::new(stdin), Box::new(stdout), Box::new(stderr));
    Ok(Started { id, hold: Box::new(hold), stdin, stdout, stderr })
}

/// A keeper's hold on a conversation.
struct Reached {
    /// Until it is told.
    place: Option<String>,
    task: Task,
    /// Why it ended, once it has.
    reason: Option<String>,
    leave: CancellationToken,
    grace: Duration,
    /// When it is cut off, once it was told to leave.
    deadline: Option<Pin<Box<Sleep>>>,
}

/// Ends with whoever holds it.
struct Task(JoinHandle<String>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Reached {
    /// Waits for the end of the task, which is cut off when its time is up.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.reason.is_some() {
            return Poll::Ready(());
        }
        let is_late = |deadline: &mut Pin<Box<Sleep>>| deadline.as_mut().poll(cx).is_ready();
        if self.deadline.as_mut().is_some_and(is_late) {
            self.deadline = None;
            self.task.0.abort();
        }
        let ended = ready!(Pin::new(&mut self.task.0).poll(cx));
        self.reason = Some(ended.unwrap_or_else(|_| "the conversation was cut off".to_owned()));
        Poll::Ready(())
    }
}

impl Hold for Reached {
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        if let Some(place) = self.place.take() {
            let whereabouts = Whereabouts::Elsewhere { place };
            return Poll::Ready(Event::Started { whereabouts, level: None });
        }
        let has_told = self.reason.is_some();
        ready!(self.poll_end(cx));
        if self.leave.is_cancelled() {
            return Poll::Ready(Event::Empty(Proof::Disconnected));
        }
        // It is told once; then the keeper lets go of it.
        if has_told {
            return Poll::Pending;
        }
        Poll::Ready(Event::Lost(self.reason.clone().unwrap_or_default()))
    }

    fn stop(&mut self, _: Step) {
        if !self.leave.is_cancelled() {
            self.leave.cancel();
            self.deadline = Some(Box::pin(tokio::time::sleep(self.grace)));
        }
    }

    fn rescue(self: Box<Self>) -> BoxFuture<Outcome> {
        Box::pin(std::future::ready(Outcome::Gone(Proof::Disconnected)))
    }

    fn part(self: Box<Self>) -> BoxFuture<()> {
        Box::pin(std::future::ready(()))
    }
}
