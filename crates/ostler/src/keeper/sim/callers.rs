//! Those who use servers: each is a task that asks, uses what it gets, and goes.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use super::backend::now;
use super::scopes::Room;
use super::servers::{ACQUIRE, CALL, request};
use super::world::World;
use crate::frame::Frame;
use crate::keeper::{AcquireError, CallError, Demand, Lease};

/// What somebody does with a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Errand {
    /// Gives it back.
    Look,
    /// Calls.
    Call,
    /// Asks without using it.
    Probe,
    /// Has it in use for some time.
    Hold(Duration),
    /// Says something.
    Notify,
    /// Keeps a clone for good.
    Keep,
    /// Panics while it has it in use.
    Panic,
    /// Lets the scope find an instance for a call.
    Serve,
    /// Asks a server what it offers, which goes on when its scope is closed.
    List(Duration),
}

/// Leases that somebody keeps although they are of no use any more.
#[derive(Clone, Debug, Default)]
pub(super) struct Attic(Arc<Mutex<Vec<Lease>>>);

impl Attic {
    pub(super) fn keep(&self, lease: Lease) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(lease);
    }

    pub(super) fn take(&self) -> Vec<Lease> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Somebody with an errand.
pub(super) struct Caller {
    pub(super) world: Arc<World>,
    pub(super) room: Arc<Room>,
    pub(super) server: String,
    pub(super) errand: Errand,
    pub(super) attic: Attic,
    /// Lets others go first, so often.
    pub(super) waits: usize,
}

impl Caller {
    pub(super) async fn run(self) {
        for _ in 0..self.waits {
            tokio::task::yield_now().await;
        }
        self.world.audit();
        if let Errand::List(time) = self.errand {
            return self.list(time).await;
        }
        if self.errand == Errand::Serve {
            // What it gets may end before the call is sent, again and again.
            let asking = Asking::begin(&self, Duration::from_hours(1));
            let _ = self.room.scope().call(&self.server, &request("work")).await;
            drop(asking);
        } else if let Some(lease) = self.acquire().await {
            self.attend(lease).await;
        }
        self.world.audit();
    }

    async fn acquire(&self) -> Option<Lease> {
        let was_closed = self.room.is_closed();
        let asking = Asking::begin(self, ACQUIRE);
        let answer = self.room.scope().acquire(&self.server).await;
        drop(asking);
        self.world.note(|| {
            let answer = answer.as_ref().map(Lease::instance).map_err(ToString::to_string);
            format!("{} for {}: {answer:?}", self.server, self.room.scope().who())
        });
        let is_refused = matches!(answer, Err(AcquireError::ScopeClosed));
        if was_closed && !is_refused || is_refused && !self.room.is_closed() {
            self.world.rules().broken(format!("closed: {was_closed}, refused: {is_refused}"));
        }
        if let Err(error) = &answer {
            self.world.rules().saw(name_of(error));
        }
        self.world.audit();
        answer.ok()
    }

    /// Begins a listing, lets go of the scope, and has the lease for some time.
    async fn list(self, time: Duration) {
        let asking = Asking::begin(&self, Duration::from_hours(1));
        let listing = self.room.scope().acquire_to_list(&self.server, &Demand::default());
        let Self { world, room, .. } = self;
        drop(room);
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
        match self.errand {
            Errand::Look | Errand::Serve | Errand::List(_) => {}
            Errand::Call => {
                self.call(&lease).await;
                self.call(&lease).await;
            }
            Errand::Probe => {
                let _ = lease.probe(&request("probe")).await;
            }
            Errand::Hold(time) => {
                let held = self.hold(&lease);
                tokio::time::sleep(time).await;
                world.audit();
                drop(held);
            }
            Errand::Notify => {
                let note = Frame::parse("{\"method\":\"note\"}").unwrap();
                if lease.notify(&note).is_ok() {
                    drop(Using::begin(world, &lease));
                }
            }
            Errand::Keep => self.attic.keep(lease.clone()),
            Errand::Panic => {
                let _held = self.hold(&lease);
                // Without the message that a panic prints.
                std::panic::resume_unwind(Box::new("on purpose"));
            }
        }
        world.audit();
    }

    /// The note goes before the use does.
    fn hold(&self, lease: &Lease) -> Option<(Using, crate::keeper::Use)> {
        let held = lease.hold();
        let is_refused = matches!(held, Err(CallError::ScopeClosed));
        if is_refused != self.room.is_closed() {
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
        // Whoever has to wait has begun to use it.
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

/// Somebody asks, until this is dropped.
struct Asking {
    world: Arc<World>,
    ask: u64,
}

impl Asking {
    fn begin(caller: &Caller, limit: Duration) -> Self {
        let world = Arc::clone(&caller.world);
        let ask = world.rules().ask(&caller.server, caller.room.scope().who(), now() + limit);
        Self { world, ask }
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        // What was decided while it waited is looked at as long as it does.
        self.world.audit();
        self.world.rules().asked(self.ask);
    }
}

/// A call that has to end in time.
struct OpenCall {
    world: Arc<World>,
    call: u64,
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.world.rules().called(self.call);
    }
}

/// An instance is in use, until this is dropped.
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
