//! Starts, shares and stops server instances.
//!
//! A [`Keeper`] owns every instance. Callers hold [`Lease`]s, which own nothing and keep no process
//! alive. A [`Scope`] is an agent, a session or a call; closing a scope ends everything under it.
//!
//! Decisions and effects are separate. `plan` holds all state and decides: it is pure, never waits,
//! and returns actions. `shell` runs the plan under one mutex and carries its actions out before the
//! mutex is released. `driver` is the task of one instance; it runs from before the start until the
//! proof of the end and follows the state machine in `phase`. `line` carries messages to and from one
//! instance without going through the plan.
//!
//! The keeper runs on the host's tokio runtime and knows no method of MCP. The host supplies a
//! [`Handshake`] that makes an instance ready, and a [`Listener`] that receives the server's
//! notifications and requests.

mod ambient;
mod backoff;
mod books;
mod cause;
mod config;
mod dice;
mod driver;
mod event;
mod key;
mod lease;
mod line;
mod phase;
mod plan;
mod principal;
mod scope;
mod shell;
#[cfg(test)]
mod sim;
mod snapshot;
mod usage;
mod wire;

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

pub use ambient::{Ambient, Surroundings};
pub use backoff::BackoffLimits;
pub use books::Books;
pub use cause::{Cause, Ending, Fault, NotStarted, TargetView};
pub use config::{Caps, Config, Server, ServerLimits, Speech};
pub use event::{Event, What};
pub use key::{Demand, Key, Sharing, Who, Whose};
pub use lease::{Lease, Use};
pub use line::{
    CallError, Greeting, Handshake, Listener, NoHandshake, RefuseRequests, StderrSink, StderrSinks,
    Talk, Turn,
};
pub use plan::{AcquireError, Changes, Holders, Obstacle};
pub use principal::Principal;
pub use scope::Scope;
pub use snapshot::{InstanceState, InstanceView, ServerView, Snapshot};
pub use wire::Wire;

pub use crate::backend::{Conversation, Remote, RemoteEnds, Target};
pub use crate::fingerprint::Fingerprint;

use self::dice::Dice;
use self::key::Caller;
use self::plan::Plan;
use self::scope::ScopeState;
use self::shell::Shell;
use crate::backend::Backends;
use crate::instance::Owner;

/// Owner of all instances.
///
/// Dropping the keeper stops every instance without waiting; the guardians finish the work. The same
/// happens if the keeper's task panics or its runtime shuts down.
#[derive(Debug)]
pub struct Keeper {
    shell: Arc<Shell>,
    /// Parent of every scope's token: cancelling it closes all scopes.
    closed: CancellationToken,
}

/// Why [`Scope::call`] has no response.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ServeError {
    /// No instance was available.
    #[error(transparent)]
    Acquire(#[from] AcquireError),
    /// The instance did not answer.
    #[error(transparent)]
    Call(#[from] CallError),
}

/// Handle to instances that are being stopped. They stop even if it is dropped.
#[derive(Debug)]
#[must_use = "the instances stop anyway; wait for that with `settled`"]
pub struct Departure {
    shell: Arc<Shell>,
    going: Vec<u64>,
}

impl Departure {
    pub(self) fn new(shell: Arc<Shell>, going: Vec<u64>) -> Self {
        Self { shell, going }
    }

    /// Waits until each instance is proven gone or known to have left something, and returns those
    /// that left something. Bounded by the limits the instances were started with.
    pub async fn settled(self) -> Vec<InstanceView> {
        self.shell.settled(&self.going).await;
        let left = snapshot_of(&self.shell).instances.into_iter();
        left.filter(|view| self.going.contains(&view.number)).collect()
    }
}

impl Keeper {
    /// Creates a keeper for these servers on the current tokio runtime. Starts no server yet.
    pub fn new(owner: Owner, config: Config) -> Self {
        Self::on(Backends::default(), owner, config)
    }

    /// Like [`Keeper::new`], with the host's own set of backends.
    pub fn on(backends: Backends, owner: Owner, config: Config) -> Self {
        Self::with(backends, owner, Dice::random(), config)
    }

    fn with(backends: Backends, owner: Owner, dice: Dice, config: Config) -> Self {
        let shell = Shell::new(Plan::new(dice), (backends, owner), Handle::current());
        shell.with(|plan, now| plan.replace(config, now));
        shell.begin();
        Self { shell, closed: CancellationToken::new() }
    }

    /// Opens the agent with this name of the default principal. Equal names open the same agent.
    pub fn agent(&self, name: &str) -> Scope {
        self.agent_of(&Principal::default(), name)
    }

    /// Opens the agent with this name of a principal. Agents of different principals are never the same.
    pub fn agent_of(&self, principal: &Principal, name: &str) -> Scope {
        let agent = (principal.clone(), Arc::from(name));
        let scope = self.shell.with_state(|state, _| {
            state.agents.retain(|_, agent| agent.strong_count() > 0);
            let known = state.agents.get(&agent).and_then(std::sync::Weak::upgrade);
            if let Some(known) = known.filter(|known| !known.is_closed()) {
                return known;
            }
            let number = state.plan.next_number();
            let (principal, name) = agent.clone();
            let who = Who { principal, agent: Some(name), session: 0 };
            let caller = Caller { number, who, parent: None, surroundings: None };
            let scope = ScopeState::new(&self.shell, caller, self.closed.child_token(), None);
            state.agents.insert(agent, Arc::downgrade(&scope));
            scope
        });
        Scope::new(scope)
    }

    /// Opens a session of the default principal, without a named agent.
    pub fn session(&self) -> Scope {
        self.session_of(&Principal::default())
    }

    /// Opens a session of a principal, without a named agent.
    pub fn session_of(&self, principal: &Principal) -> Scope {
        self.open_session(principal, None)
    }

    /// Like [`Keeper::session_of`], for a client with these ambient variables.
    pub fn session_amid(&self, principal: &Principal, its: Arc<dyn Surroundings>) -> Scope {
        self.open_session(principal, Some(its))
    }

    fn open_session(
        &self,
        principal: &Principal,
        surroundings: Option<Arc<dyn Surroundings>>,
    ) -> Scope {
        let number = self.shell.with(|plan, _| plan.next_number());
        let who = Who { principal: principal.clone(), agent: None, session: number };
        let caller = Caller { number, who, parent: None, surroundings };
        Scope::new(ScopeState::new(&self.shell, caller, self.closed.child_token(), None))
    }

    /// Applies a new configuration. Unchanged servers keep their instances; instances of changed and
    /// removed servers drain and stop. Changed servers start again on the next request.
    pub fn replace(&self, config: Config) -> (Changes, Departure) {
        let (changes, going) = self.shell.with(|plan, now| plan.replace(config, now));
        (changes, Departure::new(Arc::clone(&self.shell), going))
    }

    /// Adds one server or replaces its configuration; the others stay as they are. See
    /// [`replace`](Self::replace).
    pub fn add(&self, name: &str, server: Server) {
        self.shell.with(|plan, now| plan.add(name, server, now));
    }

    /// Removes the servers that have no instance and no waiting caller, except those `keep` accepts.
    pub fn retain(&self, keep: impl Fn(&str) -> bool) {
        self.shell.with(|plan, now| plan.retain(keep, now));
    }

    /// Stops all instances of a server on request of an operator. The next caller starts a new one.
    pub fn stop(&self, server: &str) -> Departure {
        self.stop_if(|_, key| *key.server == *server)
    }

    /// Stops the instances that match, by number and key, on request of an operator.
    pub fn stop_if(&self, fits: impl Fn(u64, &Key) -> bool) -> Departure {
        let going = self.shell.with(|plan, now| plan.stop(fits, now));
        Departure::new(Arc::clone(&self.shell), going)
    }

    /// Clears the backoff of a server on request of an operator: the next caller starts it at once.
    pub fn forgive(&self, server: &str) {
        self.shell.with(|plan, now| plan.forgive(server, now));
    }

    /// Refuses new requests for instances and stops all instances; calls in flight may finish within
    /// the drain limit.
    pub fn close(&self) -> Departure {
        Departure::new(Arc::clone(&self.shell), self.shell.with(Plan::drain))
    }

    /// Stops draining instances now, without waiting for their calls.
    pub fn hurry(&self) {
        self.shell.with(|plan, _| plan.hurry());
    }

    /// Subscribes to events from now on. A subscriber that lags loses the oldest ones.
    pub fn events(&self) -> broadcast::Receiver<Event> {
        self.shell.events()
    }

    /// The configuration of a server.
    pub fn server(&self, name: &str) -> Option<Arc<Server>> {
        self.shell.state().plan.server(name)
    }

    /// Counts of all instances; they balance at every moment.
    pub fn books(&self) -> Books {
        self.shell.state().plan.books()
    }

    /// The state of all servers and instances.
    pub fn snapshot(&self) -> Snapshot {
        snapshot_of(&self.shell)
    }

    /// Finds the instance that `what` is part of: a pid, or another name the instance's backend knows.
    pub fn why(&self, what: &str) -> Option<InstanceView> {
        let is_cause =
            |view: &InstanceView| view.id.is_some_and(|id| self.shell.part(id, what).is_some());
        self.snapshot().instances.into_iter().find(is_cause)
    }

    /// Stops all instances at once and waits until each is proven gone or reported as unverified.
    /// Unverified instances stay in the ledger, and their guardians go on.
    pub async fn shutdown(self) -> Books {
        self.closed.cancel();
        let going = self.shell.with(Plan::close);
        self.shell.settled(&going).await;
        self.books()
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.closed.cancel();
        self.shell.with(Plan::close);
        self.shell.abandon();
    }
}

fn snapshot_of(shell: &Shell) -> Snapshot {
    Snapshot::of(&shell.state(), tokio::time::Instant::now().into_std())
}
