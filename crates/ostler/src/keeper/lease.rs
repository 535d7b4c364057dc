//! Leases: the right of a scope to use an instance.
//!
//! A lease reaches its instance directly through `line`, without the plan. Two things do go through the plan: the
//! release of a lease, and the first use after the instance was marked as suspect. Uses are counted in `usage`; an
//! instance that is retired refuses new uses there, so a lease can never reach an instance that is stopping.

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

/// The right of one scope to use one instance.
///
/// A lease owns nothing: clones may be kept anywhere, and the instance still stops when the keeper
/// decides so. Calls through them fail then. The lease is released when its last clone is dropped or
/// its scope is closed.
#[derive(Clone, Debug)]
pub struct Lease(Arc<LeaseState>);

struct LeaseState {
    scope: Arc<ScopeState>,
    line: Arc<Line>,
    number: u64,
    lease: u64,
    /// Not used yet, so that its instance is protected from eviction.
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

    /// How the instance ended; `None` while it runs.
    pub fn ending(&self) -> Option<Arc<Ending>> {
        self.0.line.ended().cloned()
    }

    /// After [`CallError::Closed`]: waits until the keeper has retired the instance, so that the next
    /// request gets another one.
    pub async fn left(&self) {
        self.0.line.left().await;
    }

    /// Sends a request and waits for the response, which carries the request's own id.
    pub async fn call(&self, request: &Frame) -> Result<Frame, CallError> {
        let _use = self.hold()?;
        self.talk(request).await
    }

    /// Like [`Lease::call`], but does not count as use: the instance can become idle and be evicted.
    pub async fn probe(&self, request: &Frame) -> Result<Frame, CallError> {
        if self.0.claim() {
            // The reservation is over, so the instance may be evicted for a waiting request.
            self.0.scope.shell.use_ended();
        }
        self.talk(request).await
    }

    /// A permit for [`begin`](Self::begin), if one is free.
    pub fn try_turn(&self) -> Option<Turn> {
        self.0.line.try_turn()
    }

    /// Waits for a permit for [`begin`](Self::begin), if the server limits concurrent calls.
    pub async fn turn(&self) -> Turn {
        self.0.line.turn().await
    }

    /// Sends a request without waiting for the response. `line` formats the whole line, newline
    /// included, from the id that the request gets; `reply` receives the response under that id. The
    /// task that reads the server calls `reply`, so it must not block. There is no time limit: the
    /// caller gives up with [`forget`](Self::forget).
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

    /// Drops the `reply` of a call; a late response is discarded.
    pub fn forget(&self, call: CallId) {
        self.0.line.forget(call);
    }

    /// Number of messages the instance has sent.
    pub fn heard(&self) -> u64 {
        self.0.line.heard()
    }

    /// Marks the instance as suspect: a call timed out and the server sent nothing meanwhile. The next
    /// request replaces the instance, unless the server sends a message before.
    pub fn suspect(&self) {
        self.0.line.usage().suspect(true);
    }

    /// Sends a notification, or the response to a request of the server.
    pub fn notify(&self, message: &Frame) -> Result<(), CallError> {
        let _use = self.hold()?;
        self.0.line.notify(message)
    }

    /// Counts as use until the guard is dropped, for uses that are no call, such as subscriptions.
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

    /// Takes the raw pipes of the instance. Its server must be configured with
    /// [`Speech::Bytes`](super::Speech), and the pipes can be taken only once.
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
    /// Ends the reservation at the first use. Returns whether this was the first.
    fn claim(&self) -> bool {
        // Load before swap: every call comes through here.
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

/// Guard of one use of an instance.
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
