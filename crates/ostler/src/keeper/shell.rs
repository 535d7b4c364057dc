//! Where decisions become deeds: the plan under its lock, and what is done about it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Instant, SystemTime};

use tokio::runtime::Handle;
use tokio::sync::{Notify, broadcast, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::sleep_until;

use super::cause::{Cause, Ending};
use super::config::Server;
use super::driver::{Driver, Orders};
use super::event::{Event, What};
use super::lease::Lease;
use super::line::Line;
use super::plan::{AcquireError, Action, Plan};
use super::principal::Principal;
use super::scope::ScopeState;
use crate::backend::{Backends, StartOrder, Started, Whereabouts};
use crate::fence::StartError;
use crate::id::InstanceId;
use crate::instance::Owner;

/// Who listens late misses the oldest.
const EVENTS: usize = 1024;

/// What all parts of a keeper share. It owns no process: the tasks do.
pub(super) struct Shell {
    state: Mutex<ShellState>,
    backends: Backends,
    owner: Owner,
    runtime: Handle,
    events: broadcast::Sender<Event>,
    changed: Notify,
    /// Whether somebody waits for a place that an idle instance could give.
    is_short: AtomicBool,
}

/// What is under one lock.
pub(super) struct ShellState {
    pub(super) plan: Plan,
    pub(super) drivers: HashMap<u64, DriverHandle>,
    pub(super) agents: HashMap<(Principal, Arc<str>), Weak<ScopeState>>,
    pending: HashMap<u64, PendingAcquire>,
    tasks: JoinSet<()>,
}

/// Our hold on one instance's driver.
pub(super) struct DriverHandle {
    pub(super) orders: watch::Sender<Orders>,
    pub(super) line: Arc<Line>,
    pub(super) id: Option<InstanceId>,
    pub(super) whereabouts: Option<Whereabouts>,
}

/// Somebody who waits.
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

    pub(super) fn backends(&self) -> &Backends {
        &self.backends
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

    /// Decides, and does what follows before anybody else can decide.
    pub(super) fn with<T>(self: &Arc<Self>, decide: impl FnOnce(&mut Plan, Instant) -> T) -> T {
        self.with_state(|state, now| decide(&mut state.plan, now))
    }

    /// The same with everything that is under the lock.
    pub(super) fn with_state<T>(
        self: &Arc<Self>,
        decide: impl FnOnce(&mut ShellState, Instant) -> T,
    ) -> T {
        let mut state = self.state();
        let result = decide(&mut state, tokio::time::Instant::now().into_std());
        // Also if nothing is done about it: whoever ends a use has to know.
        self.is_short.store(state.plan.is_short(), Ordering::Relaxed);
        let actions = state.plan.take_actions();
        if actions.is_empty() {
            return result;
        }
        let unwanted: Vec<Lease> =
            actions.into_iter().filter_map(|action| state.carry_out(self, action)).collect();
        drop(state);
        self.changed.notify_waiters();
        // They come back to the state.
        drop(unwanted);
        result
    }

    /// Waits in the queue with this ticket.
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

    /// A use has ended: somebody may wait for the place of what is idle now.
    pub(super) fn use_ended(self: &Arc<Self>) {
        if self.is_short.load(Ordering::Relaxed) {
            self.with(Plan::tick);
            // What is kept for somebody who does not use it has to be looked at again.
            self.changed.notify_waiters();
        }
    }

    /// An instance is on record under this id; its program may not run yet.
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
            let server = state.plan.member(number)?.key.server.to_string();
            state.plan.lost(number, now);
            Some((server, state.drivers.remove(&number)?.line))
        });
        self.changed.notify_waiters();
        if let Some((server, line)) = lost {
            let stderr = line.stderr();
            let ending = Ending { server, cause: Cause::KeeperClosed, status: None, stderr };
            // Nobody else tells those who wait for its answers.
            line.end(&Arc::new(ending));
        }
    }

    /// Waits until none of these instances is on its way any more.
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

    /// Decides what only time decides, for as long as the keeper lives.
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

    /// Starts the task that keeps time.
    pub(super) fn begin(self: &Arc<Self>) {
        self.state().tasks.spawn_on(Arc::clone(self).keep_time(), &self.runtime);
    }

    /// Ends all tasks, and with them everything that they hold.
    pub(super) fn abandon(self: &Arc<Self>) {
        let mut tasks = std::mem::take(&mut self.state().tasks);
        tasks.abort_all();
        // A task that never ran can't say that its instance is lost.
        let all: Vec<u64> = self.state().plan.members().map(|(number, _)| number).collect();
        for number in all {
            self.lost(number);
        }
    }

    pub(super) fn tell(&self, number: u64, what: What) {
        // Nobody has to listen.
        let _ = self.events.send(Event { at: SystemTime::now(), number, what });
    }
}

impl ShellState {
    /// Returns a lease that nobody waits for any more.
    fn carry_out(&mut self, shell: &Arc<Shell>, action: Action) -> Option<Lease> {
        match action {
            Action::Start { number, server, usage } => {
                let member = self.plan.member(number)?;
                let line = Arc::new(Line::new(&server, usage));
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
                    // Who has given up needs no answer.
                    drop(ticket.reply.send(Err(error)));
                }
            }
            Action::Tell { number, what } => {
                // Nothing is to be said any more to what the plan has forgotten.
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
