//! Runs the plan under one mutex and carries out its actions.
//!
//! Every event enters through [`Shell::with`]: it locks the state, lets the plan decide, and carries the actions out
//! before it unlocks. So an instance has a driver and a [`DriverHandle`] as soon as the plan knows it. Nothing waits
//! while the mutex is held: actions spawn tasks, send on channels and publish events. Leases that no caller receives
//! are dropped after unlocking, because dropping a lease locks again.
//!
//! One timer task calls [`Plan::tick`] at [`Plan::next_wake`] and recomputes it whenever `changed` fires.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Instant, SystemTime};

use tokio::runtime::Handle;
use tokio::sync::{Notify, broadcast, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::sleep_until;

use super::cause::Cause;
use super::config::Server;
use super::driver::{Driver, Orders};
use super::event::{Event, What};
use super::lease::Lease;
use super::line::Line;
use super::plan::{AcquireError, Action, Plan};
use super::principal::Principal;
use super::scope::ScopeState;
use crate::backend::{Backends, Part, StartOrder, Started, Whereabouts};
use crate::fence::StartError;
use crate::id::InstanceId;
use crate::instance::Owner;

/// Capacity of the event channel; a subscriber that lags further loses the oldest events.
const EVENTS: usize = 1024;

/// State and services shared by a keeper, its scopes, leases and drivers. Owns no process: the drivers do.
pub(super) struct Shell {
    state: Mutex<ShellState>,
    backends: Backends,
    owner: Owner,
    runtime: Handle,
    events: broadcast::Sender<Event>,
    changed: Notify,
    /// Copy of [`Plan::is_short`] that the end of every use reads without the lock.
    is_short: AtomicBool,
}

/// Everything that the mutex protects.
pub(super) struct ShellState {
    pub(super) plan: Plan,
    pub(super) drivers: HashMap<u64, DriverHandle>,
    pub(super) agents: HashMap<(Principal, Arc<str>), Weak<ScopeState>>,
    pending: HashMap<u64, PendingAcquire>,
    tasks: JoinSet<()>,
}

/// Handle to one instance's driver.
pub(super) struct DriverHandle {
    pub(super) orders: watch::Sender<Orders>,
    pub(super) line: Arc<Line>,
    pub(super) id: Option<InstanceId>,
    pub(super) whereabouts: Option<Whereabouts>,
}

/// Answer channel of a queued request.
struct PendingAcquire {
    scope: Arc<ScopeState>,
    reply: oneshot::Sender<Result<Lease, AcquireError>>,
}

impl Shell {
    pub(super) fn new(
        plan: Plan,
        (backends, owner): (Backends, Owner),
        runtime: Handle,
    ) -> Arc<Self> {
        let state = ShellState {
            plan,
            drivers: HashMap::new(),
            agents: HashMap::new(),
            pending: HashMap::new(),
            tasks: JoinSet::new(),
        };
        Arc::new(Self {
            state: Mutex::new(state),
            backends,
            owner,
            runtime,
            events: broadcast::Sender::new(EVENTS),
            changed: Notify::new(),
            is_short: AtomicBool::new(false),
        })
    }

    /// Asks the backend of an instance for the part of it that people call `what`.
    pub(super) fn part(&self, instance: InstanceId, what: &str) -> Option<Part> {
        self.backends.part(&self.owner.entry(instance)?, what)
    }

    /// Starts an instance on the backend of its server.
    pub(super) async fn start(&self, server: &Server) -> Result<Started, StartError> {
        let (target, terms, owner) =
            (server.target.clone(), server.terms.clone(), self.owner.clone());
        let order = StartOrder { target, terms, containers: server.containers, owner };
        self.backends.start(order).await
    }

    pub(super) fn events(&self) -> broadcast::Receiver<Event> {
        self.events.subscribe()
    }

    pub(super) fn state(&self) -> MutexGuard<'_, ShellState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the plan decide about an event, and carries its actions out before the lock is released.
    pub(super) fn with<T>(self: &Arc<Self>, decide: impl FnOnce(&mut Plan, Instant) -> T) -> T {
        self.with_state(|state, now| decide(&mut state.plan, now))
    }

    /// Like [`Shell::with`], with access to all locked state.
    pub(super) fn with_state<T>(
        self: &Arc<Self>,
        decide: impl FnOnce(&mut ShellState, Instant) -> T,
    ) -> T {
        let mut state = self.state();
        let result = decide(&mut state, tokio::time::Instant::now().into_std());
        // Updated even without actions: `use_ended` depends on it.
        self.is_short.store(state.plan.is_short(), Ordering::Relaxed);
        let actions = state.plan.take_actions();
        if actions.is_empty() {
            return result;
        }
        let unwanted: Vec<Lease> =
            actions.into_iter().filter_map(|action| state.carry_out(self, action)).collect();
        drop(state);
        self.changed.notify_waiters();
        // Dropping a lease locks the state again.
        drop(unwanted);
        result
    }

    /// Registers a queued request and returns the channel for its answer.
    pub(super) fn wait(
        state: &mut ShellState,
        ticket: u64,
        scope: Arc<ScopeState>,
    ) -> oneshot::Receiver<Result<Lease, AcquireError>> {
        let (reply, answer) = oneshot::channel();
        state.pending.insert(ticket, PendingAcquire { scope, reply });
        answer
    }

    pub(super) fn withdraw(self: &Arc<Self>, ticket: u64) {
        let withdrawn = self.with_state(|state, now| {
            state.plan.withdraw(ticket, now);
            state.pending.remove(&ticket)
        });
        drop(withdrawn);
    }

    /// A use has ended: lets the plan evict the idle instance if a request waits for its slot.
    pub(super) fn use_ended(self: &Arc<Self>) {
        if self.is_short.load(Ordering::Relaxed) {
            self.with(Plan::tick);
            // Reservations may have changed the next wake-up of the timer task.
            self.changed.notify_waiters();
        }
    }

    /// The backend has put an instance on record under this id. Its program may not run yet.
    pub(super) fn recorded(&self, number: u64, id: InstanceId) {
        if let Some(handle) = self.state().drivers.get_mut(&number) {
            handle.id = Some(id);
        }
    }

    pub(super) fn whereabouts(&self, number: u64, whereabouts: Whereabouts) {
        if let Some(handle) = self.state().drivers.get_mut(&number) {
            handle.whereabouts = Some(whereabouts);
        }
    }

    pub(super) fn retire_if_idle(self: &Arc<Self>, number: u64) -> bool {
        self.with(|plan, _| plan.retire_if_idle(number))
    }

    pub(super) fn lost(self: &Arc<Self>, number: u64) {
        let lost = self.with_state(|state, now| {
            state.plan.member(number)?;
            state.plan.lost(number, now);
            Some(state.drivers.remove(&number)?.line)
        });
        self.changed.notify_waiters();
        if let Some(line) = lost {
            // The driver is gone, so its pending calls are failed here.
            line.end(&Arc::new(line.ending(Cause::KeeperClosed)));
            line.close_stderr();
        }
    }

    /// Waits until each of these instances is proven gone, or unverified.
    pub(super) async fn settled(&self, numbers: &[u64]) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if self.are_settled(numbers) {
                return;
            }
            changed.await;
        }
    }

    fn are_settled(&self, numbers: &[u64]) -> bool {
        let state = self.state();
        numbers.iter().all(|number| state.plan.is_settled(*number))
    }

    /// Timer task: calls [`Plan::tick`] whenever a deadline of the plan passes.
    pub(super) async fn keep_time(self: Arc<Self>) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let wake = self.state().plan.next_wake();
            let time = async {
                match wake {
                    Some(wake) => sleep_until(wake.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = changed => {}
                () = time => self.with(Plan::tick),
            }
        }
    }

    /// Starts the timer task.
    pub(super) fn begin(self: &Arc<Self>) {
        self.state().tasks.spawn_on(Arc::clone(self).keep_time(), &self.runtime);
    }

    /// Aborts all tasks. Dropping a driver stops its instance through the guardian.
    pub(super) fn abandon(self: &Arc<Self>) {
        let mut tasks = std::mem::take(&mut self.state().tasks);
        tasks.abort_all();
        // A task that was aborted before its first poll has not reported its instance as lost.
        let all: Vec<u64> = self.state().plan.members().map(|(number, _)| number).collect();
        for number in all {
            self.lost(number);
        }
    }

    pub(super) fn tell(&self, number: u64, what: What) {
        // There may be no subscriber.
        let _ = self.events.send(Event { at: SystemTime::now(), number, what });
    }
}

impl ShellState {
    /// Carries out one action. Returns a lease whose caller has given up; the caller drops it after unlocking.
    fn carry_out(&mut self, shell: &Arc<Shell>, action: Action) -> Option<Lease> {
        match action {
            Action::Start { number, server, usage } => {
                let member = self.plan.member(number)?;
                let sink = server.stderr.as_ref().map(|sinks| sinks.open(&member.key, number));
                let line = Arc::new(Line::new(&server, usage, sink));
                let (sender, orders) = watch::channel(Orders { end: None, limits: server.limits });
                let driver = Driver {
                    shell: Arc::clone(shell),
                    number,
                    key: member.key.clone(),
                    server,
                    line: Arc::clone(&line),
                    orders,
                };
                let handle = DriverHandle { orders: sender, line, id: None, whereabouts: None };
                self.drivers.insert(number, handle);
                while self.tasks.try_join_next().is_some() {}
                self.tasks.spawn_on(driver.drive(), &shell.runtime);
            }
            Action::End { number, cause, manner } => self.order(number, |orders| {
                orders.end = Some((cause, manner));
            }),
            Action::Adjust { number, limits } => {
                self.order(number, |orders| orders.limits = limits);
            }
            Action::Grant { ticket, number } => {
                let PendingAcquire { scope, reply } = self.pending.remove(&ticket)?;
                let line = Arc::clone(&self.drivers.get(&number)?.line);
                let lease = Lease::new(scope, line, number, ticket);
                return reply.send(Ok(lease)).err().and_then(Result::ok);
            }
            Action::Refuse { ticket, error } => {
                if let Some(ticket) = self.pending.remove(&ticket) {
                    // The caller may have given up.
                    drop(ticket.reply.send(Err(error)));
                }
            }
            Action::Tell { number, what } => {
                // The plan has forgotten the instance, so no order can follow.
                if self.plan.member(number).is_none() {
                    self.drivers.remove(&number);
                }
                shell.tell(number, what);
            }
        }
        None
    }

    fn order(&mut self, number: u64, change: impl FnOnce(&mut Orders)) {
        if let Some(handle) = self.drivers.get(&number) {
            handle.orders.send_modify(change);
        }
    }
}

impl std::fmt::Debug for Shell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shell").field("backends", &self.backends).finish_non_exhaustive()
    }
}
