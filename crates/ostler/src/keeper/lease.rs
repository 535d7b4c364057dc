//! The state to use an instance.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use tokio::time::Instant;

use super::cause::Ending;
use super::line::{CallError, Line, Turn};
use super::scope::ScopeState;
use super::wire::Wire;
use crate::frame::{CallId, Frame};

/// The state of one scope to use one instance.
///
/// It owns nothing: clones may be kept anywhere for as long as anybody likes, and the instance ends
/// all the same. They only hear that it has. The lease is given back when its last clone is dropped, or
/// when its scope is closed.
#[derive(Clone, Debug)]
pub struct Lease(Arc<LeaseState>);

struct LeaseState {
    scope: Arc<ScopeState>,
    line: Arc<Line>,
    number: u64,
    lease: u64,
    /// It was lent and not used yet, so that its instance is kept for it.
    is_reserved: AtomicBool,
}

impl Lease {
    pub(super) fn new(scope: Arc<ScopeState>, line: Arc<Line>, number: u64, lease: u64) -> Self {
        Self(Arc::new(LeaseState {
            scope,
            line,
            number,
            lease,
            is_reserved: AtomicBool::new(true),
        }))
    }

    /// The number of its instance within its keeper.
    pub fn instance(&self) -> u64 {
        self.0.number
    }

    /// How the instance has ended, if it has.
    pub fn ending(&self) -> Option<Arc<Ending>> {
        self.0.line.ending().cloned()
    }

    /// Waits until it is decided that the instance goes, after [`CallError::Closed`]: whoever asks then
    /// gets another one.
    pub async fn left(&self) {
        self.0.line.left().await;
    }

    /// Sends a request and waits for its answer, which carries the request's own id.
    pub async fn call(&self, request: &Frame) -> Result<Frame, CallError> {
        let _use = self.hold()?;
        self.talk(request).await
    }

    /// The same, but no use: it does not keep an idle instance.
    pub async fn probe(&self, request: &Frame) -> Result<Frame, CallError> {
        if self.0.claim() {
            // From now on it is as idle as any other, and somebody may wait for that.
            self.0.scope.shell.use_ended();
        }
        self.talk(request).await
    }

    /// A turn for [`begin`](Self::begin), if it can be had at once.
    pub fn try_turn(&self) -> Option<Turn> {
        self.0.line.try_turn()
    }

    /// Waits for a turn for [`begin`](Self::begin): of a server that takes so many calls at a time.
    pub async fn turn(&self) -> Turn {
        self.0.line.turn().await
    }

    /// Sends a request and goes on. `line` makes the whole line, with its end, from the number that the
    /// request gets; `reply` gets the answer under that number, from the task that reads the server, and may
    /// not wait. There is no time limit: who gives up says so with [`forget`](Self::forget).
    pub fn begin(
        &self,
        turn: Turn,
        line: impl FnOnce(CallId) -> Bytes,
        reply: impl FnOnce(Result<Frame, Arc<Ending>>) + Send + 'static,
    ) -> Result<CallId, CallError> {
        let held = self.hold()?;
        let reply = move |answer| {
            reply(answer);
            drop((turn, held));
        };
        self.0.line.begin(line, Box::new(reply))
    }

    /// Nobody waits for this answer any more.
    pub fn forget(&self, call: CallId) {
        self.0.line.forget(call);
    }

    /// How many messages the instance has sent.
    pub fn heard(&self) -> u64 {
        self.0.line.heard()
    }

    /// A call has taken too long, and nothing at all was heard meanwhile: the next one who asks gets
    /// another instance.
    pub fn suspect(&self) {
        self.0.line.usage().suspect(true);
    }

    /// Sends a notification, or an answer to a request of the server.
    pub fn notify(&self, message: &Frame) -> Result<(), CallError> {
        let _use = self.hold()?;
        self.0.line.notify(message)
    }

    /// Something of the server's is in use that is no call, such as a subscription, until this is
    /// dropped.
    pub fn hold(&self) -> Result<Use, CallError> {
        let state = &self.0;
        if state.scope.is_closed() {
            return Err(CallError::ScopeClosed);
        }
        if state.line.usage().is_suspect() {
            state.scope.shell.with(|plan, _| plan.replace_if_suspect(state.number));
        }
        let has_begun = state.line.usage().begin(now());
        state.claim();
        if has_begun { Ok(Use(self.clone())) } else { Err(CallError::Closed) }
    }

    /// The pipes of the instance, if its server is configured with
    /// [`Speech::Bytes`](super::Speech) and nobody has taken them before.
    pub fn wire(&self) -> Result<Wire, CallError> {
        let held = self.hold()?;
        let output = self.0.line.take_output().ok_or(CallError::NoWire)?;
        Ok(Wire::new(output, held))
    }

    async fn talk(&self, request: &Frame) -> Result<Frame, CallError> {
        let LeaseState { scope, line, .. } = &*self.0;
        if scope.is_closed() {
            return Err(CallError::ScopeClosed);
        }
        let limit = line.limits().call;
        tokio::select! {
            biased;
            answer = line.call(request, limit) => answer,
            () = scope.closed() => Err(CallError::ScopeClosed),
        }
    }
}

impl LeaseState {
    /// Whether it was still to be used for the first time.
    fn claim(&self) -> bool {
        // Looked at first, because this is done for every call.
        let is_first = self.is_reserved.load(Ordering::Relaxed)
            && self.is_reserved.swap(false, Ordering::Relaxed);
        if is_first {
            self.line.usage().claim();
        }
        is_first
    }
}

impl fmt::Debug for LeaseState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseState").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Drop for LeaseState {
    fn drop(&mut self) {
        self.claim();
        let (number, lease) = (self.number, self.lease);
        self.scope.shell.with(|plan, now| plan.release(number, lease, now));
    }
}

/// An instance in use.
#[derive(Debug)]
pub struct Use(Lease);

impl Use {
    pub(super) fn line(&self) -> &Line {
        &self.0.0.line
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        let state = &self.0.0;
        state.line.usage().end(now());
        if state.line.usage().count() == 0 {
            state.scope.shell.use_ended();
        }
    }
}

fn now() -> std::time::Instant {
    Instant::now().into_std()
}
