//! The backend of remote servers, which a keeper shares like local ones.
//!
//! An instance is a conversation: a task of the host that connects to the server and carries messages between it and
//! in-memory pipes. There is no process, no guardian and no ledger entry. The proof of the end is that the task has ended
//! and has dropped its connections.

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

/// Capacity of an in-memory pipe, in bytes: that of a kernel pipe.
const PIPE: usize = 64 << 10;

/// A remote server. The host implements how to talk to it.
pub trait Remote: fmt::Debug + Send + Sync {
    /// Display name.
    fn name(&self) -> &str;

    /// Its address for display, without secrets.
    fn place(&self) -> String;

    /// Hash of its address and credentials.
    fn fingerprint(&self) -> Fingerprint;

    /// Carries messages to the server and back, for one instance. Returns when `ends.leave` is cancelled, or with
    /// the reason why it cannot go on. The future owns all it has started, so dropping it leaves nothing behind.
    fn speak(&self, ends: RemoteEnds) -> Conversation;
}

/// A running conversation with a remote server; its output is the reason why it ended.
pub type Conversation = Pin<Box<dyn Future<Output = String> + Send>>;

/// The server's ends of an instance's pipes.
#[derive(Debug)]
pub struct RemoteEnds {
    /// Messages to the server, one per line.
    pub input: DuplexStream,
    /// Messages from the server, one per line.
    pub output: DuplexStream,
    /// Diagnostic text, in place of stderr.
    pub complaints: DuplexStream,
    /// Cancelled when the conversation must end.
    pub leave: CancellationToken,
}

/// Name of this backend. It writes no ledger entries.
pub(super) const NAME: &str = "remote";

/// Starts conversations with remote servers.
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

    /// Empty: connections end with the process that holds them, so a dead owner leaves none.
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

/// Starts a conversation. After the order to leave, it has `grace` to end.
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

/// The keeper's handle on a conversation.
struct Reached {
    /// The address, until the start is reported.
    place: Option<String>,
    task: Task,
    /// Why it ended; `None` while it runs.
    reason: Option<String>,
    leave: CancellationToken,
    grace: Duration,
    /// When the task is aborted, after the order to leave.
    deadline: Option<Pin<Box<Sleep>>>,
}

/// Aborts the task when dropped.
struct Task(JoinHandle<String>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Reached {
    /// Waits for the end of the task, and aborts it at the deadline.
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
        self.reason = Some(ended.unwrap_or_else(|_| "the conversation was aborted".to_owned()));
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
        // The loss is reported once; then the keeper stops the instance.
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
