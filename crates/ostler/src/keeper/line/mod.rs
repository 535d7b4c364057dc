//! The line to one server: what is said to it, and what it says.
//!
//! A caller writes to the server's input itself, if that has room, and is woken by the task that
//! reads the server's output: one wake-up per call, and nobody in between.

mod calls;
mod hear;
mod listener;
mod tail;

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

pub(super) use hear::{drain_stderr, hear};
pub use listener::{Greeting, Handshake, Listener, NoHandshake, RefuseRequests, Talk};

use self::calls::Calls;
use self::tail::Tail;
use super::cause::{Ending, Fault};
use super::config::{Server, ServerLimits};
use super::usage::Usage;
use crate::backend::{Input, Output};
use crate::frame::{CallId, Frame, Kind};
use crate::pipe::{Outbox, SendError, Stuck};

/// With so many calls a server has always something to do.
const MANY: usize = 16;

/// Why there is no answer.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The instance has ended while it had the call.
    #[error(transparent)]
    Ended(Arc<Ending>),
    /// The instance takes no more calls; this one was not sent, and another instance can be had.
    #[error("the instance takes no more calls")]
    Closed,
    /// The lease is over: its call, session or agent has ended.
    #[error("the session is over")]
    ScopeClosed,
    /// There was no answer in time.
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    /// The server does not read, and no more may wait for it.
    #[error("the server does not read its input, and {0} bytes are queued already")]
    Backlog(usize),
    /// The keeper reads the server's pipes itself, or somebody else has taken them.
    #[error("the server's pipes are not available")]
    NoWire,
    /// What was given is not a request.
    #[error("not a request")]
    NotARequest,
}

impl CallError {
    /// Whether the server has certainly not seen the call, so that it may be repeated.
    pub fn was_not_sent(&self) -> bool {
        matches!(self, Self::Closed | Self::Backlog(_))
    }
}

/// Who gets an answer, or hears that there will be none.
pub(super) type Reply = Box<dyn FnOnce(Result<Frame, Arc<Ending>>) + Send>;

/// What callers and the driver of an instance share. It owns no process.
pub(super) struct Line {
    limits: Mutex<ServerLimits>,
    outbox: Outbox,
    calls: Mutex<Calls>,
    stderr: Mutex<Tail>,
    turns: Option<Arc<Semaphore>>,
    usage: Arc<Usage>,
    ended: OnceLock<Arc<Ending>>,
    leaving: Notify,
    /// The server's output, if the keeper does not read it itself.
    output: Mutex<Option<Output>>,
}

impl Line {
    pub(super) fn new(server: &Server, usage: Arc<Usage>) -> Self {
        Self {
            limits: Mutex::new(server.limits),
            outbox: Outbox::default(),
            calls: Mutex::default(),
            stderr: Mutex::default(),
            turns: server.max_concurrency.map(|most| Arc::new(Semaphore::new(most.get()))),
            usage,
            ended: OnceLock::new(),
            leaving: Notify::new(),
            output: Mutex::default(),
        }
    }

    pub(super) fn usage(&self) -> &Usage {
        &self.usage
    }

    /// From now on something can be said.
    pub(super) fn open(&self, input: Input) {
        self.outbox.open(input);
    }

    /// Leaves the reading to whoever takes it.
    pub(super) fn leave_output(&self, output: Output) {
        *lock(&self.output) = Some(output);
    }

    pub(super) fn take_output(&self) -> Option<Output> {
        lock(&self.output).take()
    }

    /// Writes past the queue, for the only one who writes.
    pub(super) fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.outbox.poll_write(cx, bytes)
    }

    /// Ends the server's input.
    pub(super) fn close_input(&self) {
        self.outbox.close();
    }

    pub(super) fn limits(&self) -> ServerLimits {
        *lock(&self.limits)
    }

    pub(super) fn adjust(&self, limits: ServerLimits) {
        *lock(&self.limits) = limits;
    }

    /// Nothing more will be heard: everybody who waits is told.
    pub(super) fn end(&self, ending: &Arc<Ending>) {
        // The first ending is the one that counts.
        let ending = Arc::clone(self.ended.get_or_init(|| Arc::clone(ending)));
        let replies = lock(&self.calls).close();
        for reply in replies {
            reply(Err(Arc::clone(&ending)));
        }
        self.leaving.notify_waiters();
    }

    /// Waits until it is decided that the instance goes, after a call could not be sent: whoever asks
    /// then gets another one.
    pub(super) async fn left(&self) {
        loop {
            let leaving = self.leaving.notified();
            tokio::pin!(leaving);
            leaving.as_mut().enable();
            if self.usage.is_closed() || self.ended.get().is_some() {
                return;
            }
            leaving.await;
        }
    }

    pub(super) fn ending(&self) -> Option<&Arc<Ending>> {
        self.ended.get()
    }

    pub(super) fn stderr(&self) -> String {
        lock(&self.stderr).text()
    }

    /// Sends a request under a number of ours; `reply` gets the answer, under that number.
    pub(super) fn begin(
        &self,
        line: impl FnOnce(CallId) -> Bytes,
        reply: Reply,
    ) -> Result<CallId, CallError> {
        let (id, count) = {
            let mut calls = lock(&self.calls);
            let id = calls.enter(reply).ok_or(CallError::Closed)?;
            (id, calls.count())
        };
        // A server that has much to do need not be woken for each of its calls.
        let way = if count < MANY { Outbox::send } else { Outbox::send_along };
        let sent = self.send_by(way, line(id));
        if let Err(error) = sent {
            self.forget(id);
            return Err(error);
        }
        Ok(id)
    }

    /// How many messages it has sent.
    pub(super) fn heard(&self) -> u64 {
        lock(&self.calls).heard()
    }

    /// Nobody waits for this answer any more.
    pub(super) fn forget(&self, id: CallId) {
        let reply = lock(&self.calls).take(id);
        // Whatever it holds is let go of outside the lock.
        drop(reply);
    }

    pub(super) fn notify(&self, message: &Frame) -> Result<(), CallError> {
        if message.kind() == Kind::Request {
            return Err(CallError::NotARequest);
        }
        self.say(message)
    }

    pub(super) fn say(&self, message: &Frame) -> Result<(), CallError> {
        self.send(message.line())
    }

    fn send(&self, line: Bytes) -> Result<(), CallError> {
        self.send_by(Outbox::send, line)
    }

    fn send_by(
        &self,
        way: fn(&Outbox, Bytes, usize) -> Result<(), SendError>,
        line: Bytes,
    ) -> Result<(), CallError> {
        let limit = self.limits().backlog;
        way(&self.outbox, line, limit).map_err(|error| match error {
            SendError::Closed => CallError::Closed,
            SendError::Full(waiting) => CallError::Backlog(waiting),
        })
    }

    /// Waits for a turn, if only so many calls may be with the server at a time.
    pub(super) async fn turn(&self) -> Turn {
        match &self.turns {
            // It is never closed.
            Some(turns) => Turn(Arc::clone(turns).acquire_owned().await.ok()),
            None => Turn(None),
        }
    }

    /// A turn, if it can be had at once.
    pub(super) fn try_turn(&self) -> Option<Turn> {
        match &self.turns {
            Some(turns) => Some(Turn(Some(Arc::clone(turns).try_acquire_owned().ok()?))),
            None => Some(Turn(None)),
        }
    }

    /// A request and its answer, which carries the request's own id again.
    pub(super) async fn call(&self, request: &Frame, limit: Duration) -> Result<Frame, CallError> {
        if request.kind() != Kind::Request {
            return Err(CallError::NotARequest);
        }
        let deadline = Instant::now() + limit;
        let late = |_| CallError::TimedOut(limit);
        let _turn = timeout(limit, self.turn()).await.map_err(late)?;
        let heard = self.heard();
        let (reply, answer) = tokio::sync::oneshot::channel();
        let reply: Reply = Box::new(move |answer| drop(reply.send(answer)));
        let id = self.begin(|id| request.line_with_id(id), reply)?;
        let pending = Pending { line: self, id };
        let answer = timeout(deadline.saturating_duration_since(Instant::now()), answer).await;
        drop(pending);
        match answer {
            Ok(Ok(Ok(answer))) => Ok(answer.with_id(request.id())),
            Ok(Ok(Err(ending))) => Err(CallError::Ended(ending)),
            Ok(Err(_)) => Err(CallError::Closed),
            Err(late_answer) => {
                // A server that says other things meanwhile is slow, not hung.
                self.usage.suspect(self.heard() == heard);
                Err(late(late_answer))
            }
        }
    }

    /// Writes what could not be written at once. Returns only if the server does not read it, or can't
    /// any more.
    pub(super) async fn flush(&self) -> Fault {
        match self.outbox.flush(|| self.limits().write).await {
            Stuck::NotReading(limit) => Fault::NotReading(limit),
            Stuck::Closed => Fault::InputClosed,
        }
    }
}

/// The right to have one call with a server.
#[derive(Debug)]
pub struct Turn(
    #[expect(dead_code, reason = "held until it is dropped")] Option<OwnedSemaphorePermit>,
);

/// A call in flight: when its caller gives up, its place in the table goes.
struct Pending<'a> {
    line: &'a Line,
    id: CallId,
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        self.line.forget(self.id);
    }
}

impl std::fmt::Debug for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Line").field("ended", &self.ended).finish_non_exhaustive()
    }
}

/// What a panic has left is as good as before: every change is one assignment.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
