//! Simulated callers: each is a task that acquires a lease, uses it and drops it.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use super::backend::now;
use super::scopes::SharedScope;
use super::servers::{ACQUIRE, CALL, request};
use super::world::World;
use crate::frame::Frame;
use crate::keeper::{AcquireError, CallError, Demand, Lease};

/// What a caller does with its lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallerAction {
    /// Drops it at once.
    Look,
    /// Makes two calls.
    Call,
    /// Probes, which does not count as use.
    Probe,
    /// Holds a use for this long.
    Hold(Duration),
    /// Sends a notification.
    Notify,
    /// Keeps a clone until the end of the schedule.
    Keep,
    /// Panics while it holds a use.
    Panic,
    /// Uses [`Scope::call`](crate::keeper::Scope::call) instead of a lease.
    Serve,
    /// Acquires a lease for a listing, which outlives its scope, and holds it for this long.
    List(Duration),
}

/// Leases that callers keep although their instance may have ended.
#[derive(Clone, Debug, Default)]
pub(super) struct KeptLeases(Arc<Mutex<Vec<Lease>>>);

impl KeptLeases {
    pub(super) fn keep(&self, lease: Lease) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(lease);
    }

    pub(super) fn take(&self) -> Vec<Lease> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A caller and what it does.
pub(super) struct Caller {
    pub(super) world: Arc<World>,
    pub(super) shared: Arc<SharedScope>,
    pub(super) server: String,
    pub(super) action: CallerAction,
    pub(super) kept: KeptLeases,
    /// Number of times that it yields before it begins.
    pub(super) waits: usize,
}

impl Caller {
    pub(super) async fn run(self) {
        for _ in 0..self.waits {
            tokio::task::yield_now().await;
        }
        self.world.audit();
        if let CallerAction::List(time) = self.action {
            return self.list(time).await;
        }
        if self.action == CallerAction::Serve {
            // Instances may end before the call is sent, again and again, so there is no tight limit.
            let asking = Asking::begin(&self, Duration::from_hours(1));
            let _ = self.shared.scope().call(&self.server, &request("work")).await;
            drop(asking);
        } else if let Some(lease) = self.acquire().await {
            self.attend(lease).await;
        }
        self.world.audit();
    }

    async fn acquire(&self) -> Option<Lease> {
        let was_closed = self.shared.is_closed();
        let asking = Asking::begin(self, ACQUIRE);
        let answer = self.shared.scope().acquire(&self.server).await;
        drop(asking);
        self.world.note(|| {
            let answer = answer.as_ref().map(Lease::instance).map_err(ToString::to_string);
            format!("{} for {}: {answer:?}", self.server, self.shared.scope().who())
        });
        let is_refused = matches!(answer, Err(AcquireError::ScopeClosed));
        if was_closed && !is_refused || is_refused && !self.shared.is_closed() {
            self.world.rules().broken(format!("closed: {was_closed}, refused: {is_refused}"));
        }
        if let Err(error) = &answer {
            self.world.rules().saw(name_of(error));
        }
        self.world.audit();
        answer.ok()
    }

    /// Begins a listing, drops the scope, and holds the lease for `time`.
    async fn list(self, time: Duration) {
        let asking = Asking::begin(&self, Duration::from_hours(1));
        let listing = self.shared.scope().acquire_to_list(&self.server, &Demand::default());
        let Self { world, shared, .. } = self;
        drop(shared);
        let lease = listing.await;
        drop(asking);
        world.audit();
        if let Ok(lease) = lease {
            world.rules().saw("listed");
            tokio::select! {
                () = tokio::time::sleep(time) => {}
                () = lease.left() => {}
            }
        }
        world.audit();
    }

    async fn attend(&self, lease: Lease) {
        let world = &self.world;
        match self.action {
            CallerAction::Look | CallerAction::Serve | CallerAction::List(_) => {}
            CallerAction::Call => {
                self.call(&lease).await;
                self.call(&lease).await;
            }
            CallerAction::Probe => {
                let _ = lease.probe(&request("probe")).await;
            }
            CallerAction::Hold(time) => {
                let held = self.hold(&lease);
                tokio::time::sleep(time).await;
                world.audit();
                drop(held);
            }
            CallerAction::Notify => {
                let note = Frame::parse("{\"method\":\"note\"}").unwrap();
                if lease.notify(&note).is_ok() {
                    drop(Using::begin(world, &lease));
                }
            }
            CallerAction::Keep => self.kept.keep(lease.clone()),
            CallerAction::Panic => {
                let _held = self.hold(&lease);
                // Prints no panic message.
                std::panic::resume_unwind(Box::new("on purpose"));
            }
        }
        world.audit();
    }

    /// Begins a use and its record. The record is dropped before the use.
    fn hold(&self, lease: &Lease) -> Option<(Using, crate::keeper::Use)> {
        let held = lease.hold();
        let is_refused = matches!(held, Err(CallError::ScopeClosed));
        if is_refused != self.shared.is_closed() {
            self.world.rules().broken(format!("closed: {}", !is_refused));
        }
        held.ok().map(|held| (Using::begin(&self.world, lease), held))
    }

    async fn call(&self, lease: &Lease) {
        let until = now() + CALL;
        let call = self.world.rules().call(until);
        let request = request("work");
        let mut calling = pin!(lease.call(&request));
        let first = poll_fn(|cx| Poll::Ready(calling.as_mut().poll(cx))).await;
        let _open = OpenCall { world: Arc::clone(&self.world), call };
        // A call that has to wait has begun its use.
        let answer = match first {
            Poll::Ready(answer) => answer,
            Poll::Pending => {
                let using = Using::begin(&self.world, lease);
                let answer = calling.await;
                drop(using);
                answer
            }
        };
        if answer.is_ok() {
            self.world.rules().saw("answer");
        }
    }
}

fn name_of(error: &AcquireError) -> &'static str {
    match error {
        AcquireError::UnknownServer(_) => "unknown server",
        AcquireError::ScopeClosed => "scope closed",
        AcquireError::KeeperClosed => "keeper closed",
        AcquireError::QueueFull { .. } => "queue full",
        AcquireError::TimedOut { .. } => "timed out",
        AcquireError::BackingOff { .. } => "backing off",
        AcquireError::Failed(_) => "failed",
    }
}

/// Record of a pending request, until dropped.
struct Asking {
    world: Arc<World>,
    ask: u64,
}

impl Asking {
    fn begin(caller: &Caller, limit: Duration) -> Self {
        let world = Arc::clone(&caller.world);
        let ask = world.rules().ask(&caller.server, caller.shared.scope().who(), now() + limit);
        Self { world, ask }
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        // Decisions made while the request waited are checked before the record goes.
        self.world.audit();
        self.world.rules().asked(self.ask);
    }
}

/// Record of a pending call, until dropped.
struct OpenCall {
    world: Arc<World>,
    call: u64,
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.world.rules().called(self.call);
    }
}

/// Record of a use, until dropped.
struct Using {
    world: Arc<World>,
    number: u64,
}

impl Using {
    fn begin(world: &Arc<World>, lease: &Lease) -> Self {
        world.rules().begin_use(lease.instance(), now());
        Self { world: Arc::clone(world), number: lease.instance() }
    }
}

impl Drop for Using {
    fn drop(&mut self) {
        self.world.rules().end_use(self.number, now());
    }
}
