//! When servers are started and ended, and who shares them.
//!
//! A [`Keeper`] owns every instance; callers hold [`Lease`]s, which own nothing. [`Scope`]s say who
//! calls, and closing one ends everything under it. All decisions are made in one place, without
//! waiting (`plan`); each instance has one task that carries them out (`driver`), from before its
//! start until the proof of its end.
//!
//! The keeper runs on the host's runtime and knows no method of any protocol: how a server becomes
//! ready is a [`Handshake`] of the host, and what it says unasked goes to a [`Listener`].

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
pub use cause::{Cause, Ending, Fault};
pub use config::{Caps, Config, Server, ServerLimits, Speech};
pub use event::{Event, What};
pub use key::{Demand, Key, Sharing, Who, Whose};
pub use lease::{Lease, Use};
pub use line::{CallError, Greeting, Handshake, Listener, NoHandshake, RefuseRequests, Talk, Turn};
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

/// The only owner of instances.
///
/// Dropping it ends everything that it has, without waiting: the guardians do the rest. So does a
/// panic, and the end of the runtime.
#[derive(Debug)]
pub struct Keeper {
    shell: Arc<Shell>,
    /// Cancelled with the keeper, and all scopes with it.
    closed: CancellationToken,
}

/// Why a call through [`Scope::call`] has no answer.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ServeError {
    /// There is no instance for it.
    #[error(transparent)]
    Acquire(#[from] AcquireError),
    /// The instance did not answer it.
    #[error(transparent)]
    Call(#[from] CallError),
}

/// Instances on their way out. They go whether or not somebody waits for it.
#[derive(Debug)]
#[must_use = "what was decided happens anyway; wait for it with `settled`"]
pub struct Departure {
    shell: Arc<Shell>,
    going: Vec<u64>,
}

impl Departure {
    pub(self) fn new(shell: Arc<Shell>, going: Vec<u64>) -> Self {
        Self { shell, going }
    }

    /// Waits until each of them is proven to be gone, or known not to be. Bounded by the limits that
    /// they were started with.
    pub async fn settled(self) -> Vec<InstanceView> {
        self.shell.settled(&self.going).await;
        let left = snapshot_of(&self.shell).instances.into_iter();
        left.filter(|view| self.going.contains(&view.number)).collect()
    }
}

impl Keeper {
    /// A keeper of these servers, on the runtime that this is called from. Nothing is started.
    pub fn new(owner: Owner, config: Config) -> Self {
        Self::on(Backends::default(), owner, config)
    }

    /// The same with backends of the host's own.
    pub fn on(backends: Backends, owner: Owner, config: Config) -> Self {
        Self::with(backends, owner, Dice::random(), config)
    }

    fn with(backends: Backends, owner: Owner, dice: Dice, config: Config) -> Self {
        let shell = Shell::new(Plan::new(dice), (backends, owner), Handle::current());
        shell.with(|plan, now| plan.replace(config, now));
        shell.begin();
        Self { shell, closed: CancellationToken::new() }
    }

    /// The agent with this name of the default principal. All who ask for the same name get the same agent.
    pub fn agent(&self, name: &str) -> Scope {
        self.agent_of(&Principal::default(), name)
    }

    /// The agent with this name of a principal; an agent of another principal with the same name is another agent.
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

    /// A session of an agent without a name, which ends with it.
    pub fn session(&self) -> Scope {
        self.session_of(&Principal::default())
    }

    /// A session of a principal, without a named agent.
    pub fn session_of(&self, principal: &Principal) -> Scope {
        self.open_session(principal, None)
    }

    /// The same for a client with these ambient variables.
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

    /// Takes over a configuration as a difference: what is unchanged keeps its instances, what has
    /// changed or is gone drains and ends. Nothing is started before somebody asks.
    pub fn replace(&self, config: Config) -> (Changes, Departure) {
        let (changes, going) = self.shell.with(|plan, now| plan.replace(config, now));
        (changes, Departure::new(Arc::clone(&self.shell), going))
    }

    /// Adds a server, or takes over another configuration of one that is there, as [`replace`](Self::replace)
    /// does for all.
    pub fn add(&self, name: &str, server: Server) {
        self.shell.with(|plan, now| plan.add(name, server, now));
    }

    /// Forgets servers that have no instance and that nobody waits for, unless `keep` says otherwise.
    pub fn retain(&self, keep: impl Fn(&str) -> bool) {
        self.shell.with(|plan, now| plan.retain(keep, now));
    }

    /// Ends all instances of a server, because somebody asked for it. The next caller starts a new one.
    pub fn stop(&self, server: &str) -> Departure {
        self.stop_if(|_, key| *key.server == *server)
    }

    /// Ends those instances, by number and key, because somebody asked for it.
    pub fn stop_if(&self, fits: impl Fn(u64, &Key) -> bool) -> Departure {
        let going = self.shell.with(|plan, now| plan.stop(fits, now));
        Departure::new(Arc::clone(&self.shell), going)
    }

    /// Forgets that a server has failed, because somebody asked for it: it is started at once when somebody
    /// needs it.
    pub fn forgive(&self, server: &str) {
        self.shell.with(|plan, now| plan.forgive(server, now));
    }

    /// Ends everything: nobody gets an instance any more, and calls in flight have the time to drain.
    pub fn close(&self) -> Departure {
        Departure::new(Arc::clone(&self.shell), self.shell.with(Plan::drain))
    }

    /// Ends what drains at once.
    pub fn hurry(&self) {
        self.shell.with(|plan, _| plan.hurry());
    }

    /// What happens from now on. Who does not keep up misses the oldest.
    pub fn events(&self) -> broadcast::Receiver<Event> {
        self.shell.events()
    }

    /// How a server is configured.
    pub fn server(&self, name: &str) -> Option<Arc<Server>> {
        self.shell.state().plan.server(name)
    }

    /// The books, which balance at every moment.
    pub fn books(&self) -> Books {
        self.shell.state().plan.books()
    }

    /// What there is now.
    pub fn snapshot(&self) -> Snapshot {
        snapshot_of(&self.shell)
    }

    /// On whose behalf something exists: a process by its pid, or what else the backend of an instance can tell
    /// by name.
    pub fn why(&self, what: &str) -> Option<InstanceView> {
        let is_cause = |view: &InstanceView| {
            let (server, id) = (self.server(&view.key.server)?, view.id?);
            let backend = self.shell.backends().get(server.target.backend())?;
            Some(backend.is_part(id, view.whereabouts.as_ref()?, what))
        };
        self.snapshot().instances.into_iter().find(|view| is_cause(view) == Some(true))
    }

    /// Ends everything, all at once, and waits until it is known what became of it. What is left then is
    /// in the books as unverified, and in the ledger; its guardians go on.
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
