//! Messages to and from one instance.
//!
//! A caller registers its call in `calls` under a fresh id and writes the request to the server's stdin itself, if the
//! pipe has room; otherwise the driver's flush task writes it. The driver's read task finds the call by the id of the
//! response and wakes the caller. So a call costs one wake-up and no task in between. When the instance ends, the
//! driver calls [`Line::end`], which fails all calls in flight.

mod error;
mod hear;
mod listener;
mod stderr;
mod tail;

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

pub use error::CallError;
pub(super) use hear::{drain_stderr, hear};
pub use listener::{Greeting, Handshake, Listener, NoHandshake, RefuseRequests, Talk};
pub use stderr::{StderrSink, StderrSinks};

use self::stderr::Stderr;
use super::cause::{Cause, Ending, Fault, TargetView};
use super::config::{Server, ServerLimits};
use super::usage::Usage;
use crate::backend::{Input, Output};
use crate::frame::{CallId, Frame, Kind};
use crate::id::InstanceId;
use crate::pipe::{Outbox, SendError, Stuck};

/// With this many calls in flight, requests are batched: the server is busy and need not be woken for each.
const BUSY_CALLS: usize = 16;
/// Longest kept part of a line of stdout that is not a message, in bytes.
const LONGEST_STRAY: usize = 1024;

/// Callback of a call: receives the response, or why there is none.
pub(super) type Reply = Box<dyn FnOnce(Result<Frame, Arc<Ending>>) + Send>;

/// Connection state of one instance, shared by its leases and its driver. Owns no process.
pub(super) struct Line {
    /// Name of the server.
    name: String,
    target: TargetView,
    limits: Mutex<ServerLimits>,
    outbox: Outbox,
    calls: Mutex<Calls>,
    stderr: Mutex<Stderr>,
    /// Start of the first line of stdout that is not a message.
    stray: OnceLock<String>,
    turns: Option<Arc<Semaphore>>,
    usage: Arc<Usage>,
    ended: OnceLock<Arc<Ending>>,
    leaving: Notify,
    /// The server's output, if the keeper does not read it itself.
    output: Mutex<Option<Output>>,
}

impl Line {
    pub(super) fn new(
        server: &Server,
        usage: Arc<Usage>,
        stderr: Option<Box<dyn StderrSink>>,
    ) -> Self {
        Self {
            name: server.name().to_owned(),
            target: server.target_view(),
            limits: Mutex::new(server.limits),
            outbox: Outbox::default(),
            calls: Mutex::default(),
            stderr: Mutex::new(Stderr::new(stderr)),
            stray: OnceLock::new(),
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

    /// Attaches the server's stdin; calls before that fail with [`CallError::Closed`].
    pub(super) fn open(&self, input: Input) {
        self.outbox.open(input);
    }

    /// Keeps the server's stdout for a client of the host instead of reading it.
    pub(super) fn leave_output(&self, output: Output) {
        *lock(&self.output) = Some(output);
    }

    pub(super) fn take_output(&self) -> Option<Output> {
        lock(&self.output).take()
    }

    /// Writes raw bytes past the queue, for [`Wire`](super::Wire), the only writer then.
    pub(super) fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.outbox.poll_write(cx, bytes)
    }

    /// Closes the server's stdin.
    pub(super) fn close_input(&self) {
        self.outbox.close();
    }

    pub(super) fn limits(&self) -> ServerLimits {
        *lock(&self.limits)
    }

    pub(super) fn adjust(&self, limits: ServerLimits) {
        *lock(&self.limits) = limits;
    }

    /// The instance has ended: fails all calls in flight and refuses new ones.
    pub(super) fn end(&self, ending: &Arc<Ending>) {
        // Only the first ending counts.
        let ending = Arc::clone(self.ended.get_or_init(|| {
            lock(&self.stderr).tell(|sink| sink.end(ending));
            Arc::clone(ending)
        }));
        let replies = lock(&self.calls).close();
        for reply in replies {
            reply(Err(Arc::clone(&ending)));
        }
        self.leaving.notify_waiters();
    }

    /// After [`CallError::Closed`]: waits until the keeper has retired the instance, so that the next
    /// request gets another one.
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

    pub(super) fn ended(&self) -> Option<&Arc<Ending>> {
        self.ended.get()
    }

    /// Keeps the start of the first line of stdout that is not a message.
    fn note_stray(&self, line: &[u8]) {
        if self.stray.get().is_none() && !line.trim_ascii().is_empty() {
            let start = &line[..line.len().min(LONGEST_STRAY)];
            let _ = self.stray.set(String::from_utf8_lossy(start).into_owned());
        }
    }

    /// How the instance ends, with its last output and without an exit status.
    pub(super) fn ending(&self, cause: Cause) -> Ending {
        Ending {
            server: self.name.clone(),
            cause,
            status: None,
            stderr: lock(&self.stderr).text(),
            stray: self.stray.get().cloned(),
            target: self.target.clone(),
        }
    }

    /// Passes the instance's id to the host's sink of its stderr.
    pub(super) fn identify(&self, instance: InstanceId) {
        lock(&self.stderr).tell(|sink| sink.identify(instance));
    }

    /// Closes the host's sink of stderr: nothing more comes.
    pub(super) fn close_stderr(&self) {
        lock(&self.stderr).close();
    }

    /// Sends a request under a fresh id; `reply` receives the response under that id.
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
        // Requests to a busy server are written together.
        let way = if count < BUSY_CALLS { Outbox::send } else { Outbox::send_along };
        let sent = self.send_by(way, line(id));
        if let Err(error) = sent {
            self.forget(id);
            return Err(error);
        }
        Ok(id)
    }

    /// Number of messages the server has sent.
    pub(super) fn heard(&self) -> u64 {
        lock(&self.calls).heard()
    }

    /// Drops a call; a late response is discarded.
    pub(super) fn forget(&self, id: CallId) {
        let reply = lock(&self.calls).take(id);
        // The callback may own leases, whose drop must not run under the lock.
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

    /// Whether the server has closed its input.
    pub(super) fn is_input_closed(&self) -> bool {
        self.outbox.is_broken()
    }

    /// Waits for a permit, if the server limits concurrent calls.
    pub(super) async fn turn(&self) -> Turn {
        match &self.turns {
            // The semaphore is never closed.
            Some(turns) => Turn(Arc::clone(turns).acquire_owned().await.ok()),
            None => Turn(None),
        }
    }

    /// A permit, if one is free.
    pub(super) fn try_turn(&self) -> Option<Turn> {
        match &self.turns {
            Some(turns) => Some(Turn(Some(Arc::clone(turns).try_acquire_owned().ok()?))),
            None => Some(Turn(None)),
        }
    }

    /// Sends a request and waits for the response, which carries the request's own id.
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
                // A server that sent anything meanwhile is slow, not hung.
                self.usage.suspect(self.heard() == heard);
                Err(late(late_answer))
            }
        }
    }

    /// Writes what callers could not write at once. Returns only if the server has closed its input, or
    /// reads nothing for its write limit.
    pub(super) async fn flush(&self) -> Fault {
        match self.outbox.flush(|| self.limits().write).await {
            Stuck::NotReading(limit) => Fault::NotReading(limit),
            Stuck::Closed => Fault::InputClosed,
        }
    }
}

/// Permit for one of a server's concurrent calls; returned when dropped.
#[derive(Debug)]
pub struct Turn(
    #[expect(dead_code, reason = "held until it is dropped")] Option<OwnedSemaphorePermit>,
);

/// Removes a call from the table when its caller gives up.
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

/// Ignores poisoning: every change under these locks is a single assignment or insertion.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Hasher for call ids. The keeper assigns them, so they need no protection against collisions.
#[derive(Default)]
struct CallIdHasher(u64);

impl Hasher for CallIdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, number: u64) {
        // Spread over the whole word: the hash table uses its high and low bits.
        self.0 = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// Callbacks of the calls in flight, by id.
#[derive(Default)]
struct Calls {
    pending: HashMap<CallId, Reply, BuildHasherDefault<CallIdHasher>>,
    last: u64,
    heard: u64,
    is_closed: bool,
}

impl Calls {
    /// Adds a call. `None` if the instance has ended.
    fn enter(&mut self, reply: Reply) -> Option<CallId> {
        if self.is_closed {
            return None;
        }
        self.last += 1;
        let id = CallId(self.last);
        self.pending.insert(id, reply);
        Some(id)
    }

    fn take(&mut self, id: CallId) -> Option<Reply> {
        self.pending.remove(&id)
    }

    /// Number of calls in flight.
    fn count(&self) -> usize {
        self.pending.len()
    }

    /// Number of messages the server has sent.
    fn heard(&self) -> u64 {
        self.heard
    }

    fn hear(&mut self) {
        self.heard += 1;
    }

    /// Refuses further calls and returns the callbacks of those in flight.
    fn close(&mut self) -> Vec<Reply> {
        self.is_closed = true;
        std::mem::take(&mut self.pending).into_values().collect()
    }
}
