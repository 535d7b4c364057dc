//! Scopes: agents, sessions and calls that use servers, as a tree.
//!
//! Each scope has a cancellation token that is a child of its parent's. Closing a scope cancels the token first, which
//! fails calls and refuses requests, and then lets the plan retire the instances that belong to it.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::ambient::Surroundings;
use super::key::{Caller, Demand, Who};
use super::lease::Lease;
use super::line::CallError;
use super::plan::{AcquireDecision, AcquireError, AcquireRequest, Purpose};
use super::shell::Shell;
use super::{Departure, ServeError};
use crate::frame::Frame;

/// An agent, a session or a call that uses servers until it is closed, with everything under it.
///
/// Dropping a session or a call closes it, without waiting. A named agent outlives its handles: its
/// instances stop after their idle limit, or when the agent is closed.
#[derive(Debug)]
#[must_use = "a scope that is dropped is closed"]
pub struct Scope {
    state: Arc<ScopeState>,
    /// Leases that [`Scope::call`] reuses, by server.
    leases: Mutex<HashMap<String, Lease>>,
}

/// State of a scope, shared with its leases and child scopes.
pub(super) struct ScopeState {
    pub(super) shell: Arc<Shell>,
    pub(super) caller: Arc<Caller>,
    closed: CancellationToken,
    /// Keeps a named agent registered as long as it has sessions.
    parent: Option<Arc<ScopeState>>,
}

impl ScopeState {
    pub(super) fn new(
        shell: &Arc<Shell>,
        caller: Caller,
        closed: CancellationToken,
        parent: Option<Arc<Self>>,
    ) -> Arc<Self> {
        let (shell, caller) = (Arc::clone(shell), Arc::new(caller));
        Arc::new(Self { shell, caller, closed, parent })
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.is_cancelled()
    }

    pub(super) async fn closed(&self) {
        self.closed.cancelled().await;
    }

    fn acquire(
        self: &Arc<Self>,
        server: &str,
        demand: &Demand,
        purpose: Purpose,
    ) -> Result<Acquisition, AcquireError> {
        self.shell.with_state(|state, now| {
            if self.is_closed() {
                return Err(AcquireError::ScopeClosed);
            }
            let request = AcquireRequest { server, demand, caller: &self.caller, purpose };
            match state.plan.acquire(&request, now)? {
                AcquireDecision::Granted { number, lease } => {
                    let line = state.drivers.get(&number).map(|driver| Arc::clone(&driver.line));
                    let line = line.ok_or(AcquireError::KeeperClosed)?;
                    Ok(Acquisition::Granted(Lease::new(Arc::clone(self), line, number, lease)))
                }
                AcquireDecision::Queued { ticket } => {
                    let answer = Shell::wait(state, ticket, Arc::clone(self));
                    let place =
                        QueuePlace { shell: Arc::clone(&self.shell), ticket, is_open: true };
                    Ok(Acquisition::Queued(place, answer))
                }
            }
        })
    }

    /// Closes the scope and everything under it. Returns the instances that stop.
    fn close(&self) -> Vec<u64> {
        // Cancelled first: a request that comes now is refused and cannot start another instance.
        self.closed.cancel();
        self.shell.with(|plan, now| plan.close_scope(&self.caller, now))
    }

    fn is_named_agent(&self) -> bool {
        self.parent.is_none() && self.caller.who.session == 0
    }
}

impl Scope {
    pub(super) fn new(state: Arc<ScopeState>) -> Self {
        Self { state, leases: Mutex::default() }
    }

    /// The agent and session that this scope belongs to.
    pub fn who(&self) -> &Who {
        &self.state.caller.who
    }

    /// How long a request may wait in the queue: the current [`Caps::queue_timeout`](super::Caps::queue_timeout).
    pub fn queue_timeout(&self) -> Duration {
        self.state.shell.state().plan.queue_timeout()
    }

    /// Opens a session of this agent.
    pub fn session(&self) -> Self {
        let surroundings = self.state.caller.surroundings.clone();
        self.part(|who, number| Who { session: number, ..who.clone() }, surroundings)
    }

    /// Like [`Scope::session`], for a client with these ambient variables.
    pub fn session_amid(&self, surroundings: Arc<dyn Surroundings>) -> Self {
        self.part(|who, number| Who { session: number, ..who.clone() }, Some(surroundings))
    }

    /// Opens a part of this session that can be closed alone, such as a single call.
    pub fn nested(&self) -> Self {
        self.part(|who, _| who.clone(), self.state.caller.surroundings.clone())
    }

    fn part(
        &self,
        who: impl FnOnce(&Who, u64) -> Who,
        surroundings: Option<Arc<dyn Surroundings>>,
    ) -> Self {
        let parent = &self.state;
        let number = parent.shell.with(|plan, _| plan.next_number());
        let who = who(&parent.caller.who, number);
        let above = Some(Arc::clone(&parent.caller));
        let caller = Caller { number, who, parent: above, surroundings };
        let closed = parent.closed.child_token();
        let parent = Some(Arc::clone(parent));
        Self::new(ScopeState::new(&self.state.shell, caller, closed, parent))
    }

    /// Acquires a lease on an instance of `server`, and starts one if none can be shared. Waits in the
    /// queue while a cap or a backoff prevents the start. Dropping the future gives up the place.
    pub async fn acquire(&self, server: &str) -> Result<Lease, AcquireError> {
        self.acquire_with(server, &Demand::default()).await
    }

    /// Like [`Scope::acquire`], with further demands on the instance.
    pub async fn acquire_with(&self, server: &str, demand: &Demand) -> Result<Lease, AcquireError> {
        self.state.acquire(server, demand, Purpose::Call)?.lease().await
    }

    /// Acquires a lease on an instance of `server` to list what it offers, and starts one if none can be shared.
    ///
    /// The listing outlives this scope: if the scope closes, the start goes on, and the instance stops when the lease is
    /// dropped, unless an open scope may use it. Calls come before listings; listings wait without a deadline and leave
    /// a part of each cap to calls. A server in backoff is refused at once. The returned future waits for the instance;
    /// dropping it gives up the place.
    pub fn acquire_to_list(
        &self,
        server: &str,
        demand: &Demand,
    ) -> impl Future<Output = Result<Lease, AcquireError>> + Send + use<> {
        let acquisition = self.state.acquire(server, demand, Purpose::Listing);
        async move { acquisition?.lease().await }
    }

    /// Whether `server` has a ready instance without calls, or can start one now.
    pub fn has_undivided(&self, server: &str, demand: &Demand) -> bool {
        self.state.shell.with_state(|state, now| {
            let (caller, purpose) = (&self.state.caller, Purpose::Call);
            state.plan.has_undivided(&AcquireRequest { server, demand, caller, purpose }, now)
        })
    }

    /// Acquires a lease on a ready instance, if there is one. Never starts an instance.
    pub fn peek(&self, server: &str) -> Option<Lease> {
        self.state.shell.with_state(|state, now| {
            if self.state.is_closed() {
                return None;
            }
            let (caller, purpose) = (&self.state.caller, Purpose::Call);
            let request = AcquireRequest { server, demand: &Demand::default(), caller, purpose };
            let (number, lease) = state.plan.peek(&request, now)?;
            let line = Arc::clone(&state.drivers.get(&number)?.line);
            Some(Lease::new(Arc::clone(&self.state), line, number, lease))
        })
    }

    /// Makes one call to a server, and starts it if necessary. If the instance stops before the call
    /// was sent, the call goes to another one; a call that was sent is never repeated.
    pub async fn call(&self, server: &str, request: &Frame) -> Result<Frame, ServeError> {
        loop {
            let lease = self.lease(server).await?;
            match lease.call(request).await {
                Err(CallError::Closed) => {
                    self.forget(server, &lease);
                    lease.left().await;
                }
                answer => return Ok(answer?),
            }
        }
    }

    async fn lease(&self, server: &str) -> Result<Lease, AcquireError> {
        let held = self.leases().get(server).cloned();
        if let Some(lease) = held.filter(|lease| lease.ending().is_none()) {
            return Ok(lease);
        }
        let lease = self.acquire(server).await?;
        let is_for_one_call = self.state.shell.state().plan.is_for_one_call(lease.instance());
        if !is_for_one_call {
            self.leases().insert(server.to_owned(), lease.clone());
        }
        Ok(lease)
    }

    fn forget(&self, server: &str, lease: &Lease) {
        let mut leases = self.leases();
        if leases.get(server).is_some_and(|held| held.instance() == lease.instance()) {
            let lease = leases.remove(server);
            drop(leases);
            drop(lease);
        }
    }

    fn leases(&self) -> std::sync::MutexGuard<'_, HashMap<String, Lease>> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes the scope and everything under it: queued requests are refused, calls fail, and instances
    /// that belong to it stop. Instances shared with other scopes stay.
    pub fn close(self) -> Departure {
        let going = self.state.close();
        Departure::new(Arc::clone(&self.state.shell), going)
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        if !self.state.is_named_agent() && !self.state.is_closed() {
            self.state.close();
        }
    }
}

impl fmt::Debug for ScopeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScopeState").field("who", &self.caller.who).finish_non_exhaustive()
    }
}

/// A lease, or a place in the queue for one.
enum Acquisition {
    Granted(Lease),
    Queued(QueuePlace, tokio::sync::oneshot::Receiver<Result<Lease, AcquireError>>),
}

impl Acquisition {
    /// Waits for the lease.
    async fn lease(self) -> Result<Lease, AcquireError> {
        match self {
            Self::Granted(lease) => Ok(lease),
            Self::Queued(mut place, answer) => {
                let answer = answer.await;
                place.is_open = false;
                answer.unwrap_or(Err(AcquireError::KeeperClosed))
            }
        }
    }
}

/// Place in the queue; withdraws the request when dropped before the answer.
struct QueuePlace {
    shell: Arc<Shell>,
    ticket: u64,
    is_open: bool,
}

impl Drop for QueuePlace {
    fn drop(&mut self) {
        if self.is_open {
            self.shell.withdraw(self.ticket);
        }
    }
}
