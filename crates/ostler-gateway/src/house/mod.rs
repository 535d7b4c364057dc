//! A gateway with all that it takes to run one: who is served with what, and how it ends.

mod certificate;
mod pass;
mod reserve;
mod roster;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, SystemTime};

use ostler::Owner;
use ostler::keeper::{Changes, InstanceView, Principal};
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

pub use self::certificate::{Identity, IdentityError};
pub use self::pass::Pass;
use self::reserve::Reserve;
pub use self::roster::Supply;
use self::roster::{Guest, Roster};
use crate::agents::{AGENT_TIMEOUT, Agent};
use crate::chronicle::{self, Chronicle, Happening};
use crate::config::{self, Environment, LoadError, Names};
use crate::gateway::{Gateway, Visitor};
use crate::mutex::lock;
use crate::reason::why;
use crate::route::Route;

/// A gateway, its configuration, and its clients.
#[derive(Debug)]
pub struct House {
    gateway: Arc<Gateway>,
    roster: Roster,
    /// Where the configuration is, if there is one.
    configuration: Option<PathBuf>,
    /// What clients on HTTP know it by.
    identity: OnceLock<Arc<Identity>>,
    /// File descriptors that are kept for operators.
    reserve: Reserve,
    /// The last change of the configuration since it was read first.
    taken_over: Mutex<Option<TakenOver>>,
    closing: CancellationToken,
    closed: CancellationToken,
    left: OnceLock<Vec<InstanceView>>,
}

/// Who wants a session.
#[derive(Debug, Serialize, Deserialize)]
pub struct ClientHello {
    /// The server that it wants, or all.
    pub server: Option<String>,
    /// The agent that it belongs to.
    pub agent: Option<Agent>,
    /// Where it works.
    pub cwd: OsString,
    /// Its variables, as far as the gateway has asked for them.
    pub variables: Vec<(OsString, OsString)>,
}

/// Another configuration that is in force since.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakenOver {
    /// When, in milliseconds since 1970.
    pub at: u64,
    /// Servers that are different since.
    pub changed: Vec<String>,
    /// Servers that are not there any more.
    pub removed: Vec<String>,
    /// New servers.
    pub added: Vec<String>,
}

/// Why a client gets no session.
#[derive(Debug, thiserror::Error)]
pub enum NotWelcome {
    /// It wants a server that is switched off.
    #[error("{0}: the configuration says `enabled: false`")]
    Off(String),
    /// It wants a server that there is none of.
    #[error("no server is called {name}; there {}", list(servers))]
    UnknownServer {
        /// What it wants.
        name: String,
        /// What there is.
        servers: Vec<String>,
    },
}

/// Why the configuration in force stays as it is.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// There is none that could have changed.
    #[error("this gateway has no configuration file")]
    NoFile,
    /// The new one can't be used.
    #[error(transparent)]
    Load(#[from] LoadError),
}

impl House {
    /// A gateway that takes its servers from `supply`, which was read from `configuration`, and keeps what it learns
    /// in `catalog`. Nothing is started.
    pub fn new(
        owner: Owner,
        supply: Supply,
        configuration: Option<PathBuf>,
        catalog: Option<PathBuf>,
    ) -> Arc<Self> {
        let gateway =
            Gateway::new(owner, std::collections::BTreeMap::new(), supply.caps(), catalog);
        gateway.quotas().configure(supply.quotas());
        Arc::new(Self {
            roster: Roster::new(supply, Environment::of_process()),
            gateway,
            configuration,
            identity: OnceLock::new(),
            reserve: Reserve::new(),
            taken_over: Mutex::default(),
            closing: CancellationToken::new(),
            closed: CancellationToken::new(),
            left: OnceLock::new(),
        })
    }

    /// The gateway itself.
    pub fn gateway(&self) -> &Arc<Gateway> {
        &self.gateway
    }

    /// What is done beside serving clients, for as long as it lives.
    pub async fn tend(&self) {
        let agent_timeout = || self.roster.agent_timeout().unwrap_or(AGENT_TIMEOUT);
        tokio::join!(
            self.gateway.tend(),
            self.chronicle().write(self.gateway.keeper()),
            self.gateway.close_found_agents(agent_timeout),
        );
    }

    /// Tells every failure of an instance from now on, for as long as the returned future is polled.
    pub fn tell_failures<F: FnMut(&Happening)>(
        &self,
        mut tell: F,
    ) -> impl Future<Output = ()> + use<F> {
        let (_, mut news) = self.chronicle().read();
        async move {
            loop {
                match news.recv().await {
                    Ok(happening) if happening.failure.is_some() => tell(&happening),
                    Ok(_) | Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return,
                }
            }
        }
    }

    /// Where its configuration is.
    pub fn configuration(&self) -> Option<&Path> {
        self.configuration.as_deref()
    }

    /// Whether nobody is there and nothing runs.
    pub fn is_idle(&self) -> bool {
        self.gateway.clients() == 0 && self.gateway.keeper().snapshot().instances.is_empty()
    }

    /// Reads the configuration again, and takes it over as a difference. If it can't be used, the one in
    /// force stays.
    /// Returns also what its author should know. A certificate is read again as well.
    pub fn reload(&self) -> Result<(Changes, Vec<String>), ReloadError> {
        let renewed = self.identity.get().map_or(Ok(()), |identity| identity.renew());
        let path = self.configuration.as_deref().ok_or(ReloadError::NoFile)?;
        let file = config::load(path)?;
        let mut notices: Vec<_> = file.notices.iter().map(|one| one.message.clone()).collect();
        let (changes, departure) = self.roster.replace(&self.gateway, Supply::File(file));
        // They go whether or not somebody waits; the answer is about the configuration.
        drop(departure);
        if !is_same(&changes) {
            let Changes { changed, removed, added, .. } = changes.clone();
            let at = chronicle::millis(SystemTime::now());
            *lock(&self.taken_over) = Some(TakenOver { at, changed, removed, added });
        }
        notices.extend(self.warnings());
        notices.extend(
            renewed.err().map(|error| format!("the certificate in force stays: {}", why(&error))),
        );
        Ok((changes, notices))
    }

    /// What was taken over when the configuration last changed.
    pub(crate) fn taken_over(&self) -> Option<TakenOver> {
        lock(&self.taken_over).clone()
    }

    /// Asks it to end, as an operator does.
    pub fn close(&self) {
        self.closing.cancel();
    }

    /// Ends all instances, and waits until it is known what became of them. Calls in flight have the time to
    /// drain, unless `hurry` says otherwise.
    pub async fn shut_down(&self, hurry: impl Future<Output = ()>) -> &[InstanceView] {
        self.closing.cancel();
        let settled = self.gateway.keeper().close().settled();
        tokio::pin!(settled, hurry);
        let left = tokio::select! {
            left = &mut settled => left,
            () = hurry => {
                self.gateway.keeper().hurry();
                settled.await
            }
        };
        let left = self.left.get_or_init(|| left);
        self.closed.cancel();
        left
    }

    /// Cancelled when it begins to end: nobody else is let in.
    pub fn closing(&self) -> &CancellationToken {
        &self.closing
    }

    /// Cancelled when it is known what became of all instances.
    pub(crate) fn closed(&self) -> &CancellationToken {
        &self.closed
    }

    /// What could not be ended; known once it is closed.
    pub(crate) fn left(&self) -> &[InstanceView] {
        self.left.get().map_or(&[], Vec::as_slice)
    }

    pub(crate) fn roster(&self) -> &Roster {
        &self.roster
    }

    pub(crate) fn reserve(&self) -> &Reserve {
        &self.reserve
    }

    pub(crate) fn chronicle(&self) -> &Chronicle {
        self.gateway.chronicle()
    }

    pub(crate) fn variables(&self) -> Vec<String> {
        self.roster.variables().iter().map(str::to_owned).collect()
    }

    /// Lets a client of this machine in.
    pub(crate) fn welcome(
        &self,
        hello: ClientHello,
        pid: Option<i32>,
    ) -> Result<Visitor, NotWelcome> {
        let route = self.route(hello.server, None)?;
        let variables = hello.variables.into_iter().collect();
        let guest = Guest::new(variables, hello.cwd.into(), None);
        let menu = self.roster.welcome(&self.gateway, guest);
        let principal = Principal::default();
        Ok(Visitor { principal, agent: hello.agent, route, menu: Some(menu), pid })
    }

    /// Lets a client in that has nothing but a pass: its variables and its directory are the gateway's.
    pub(crate) fn welcome_by_pass(
        &self,
        server: Option<String>,
        agent: Option<String>,
        pass: &Pass,
    ) -> Result<Visitor, NotWelcome> {
        let route = self.route(server, pass.servers.as_ref())?;
        let menu = pass.menu(|allowed| {
            let cwd = std::env::current_dir().unwrap_or_else(|_| "/".into());
            self.roster.welcome(&self.gateway, Guest::new(Environment::default(), cwd, allowed))
        });
        let agent = agent.map(Agent::named);
        Ok(Visitor { principal: pass.principal.clone(), agent, route, menu: Some(menu), pid: None })
    }

    /// The way to a server that a client may have, or to all of them.
    fn route(&self, server: Option<String>, allowed: Option<&Names>) -> Result<Route, NotWelcome> {
        let Some(name) = server else { return Ok(Route::All) };
        let may = |name: &str| allowed.is_none_or(|allowed| allowed.contains(name));
        let mut servers = self.roster.names();
        servers.retain(|name| may(name));
        if servers.contains(&name) {
            return Ok(Route::One(name.into()));
        }
        if may(&name) && self.roster.is_off(&name) {
            return Err(NotWelcome::Off(name));
        }
        Err(NotWelcome::UnknownServer { name, servers })
    }

    /// What lets clients on HTTP in, as the configuration says.
    pub(crate) fn passes(&self) -> Arc<[Arc<Pass>]> {
        self.roster.passes()
    }

    /// What is wrong with the configuration for this gateway: tokens that let nobody in.
    pub fn warnings(&self) -> Vec<String> {
        self.roster.token_warnings()
    }

    /// Reads this again whenever it reads its configuration again.
    pub(crate) fn keep(&self, identity: &Arc<Identity>) {
        self.identity.get_or_init(|| Arc::clone(identity));
    }

    /// How long a client on HTTP may be away, if the configuration says it.
    pub(crate) fn detach_timeout(&self) -> Option<Duration> {
        self.roster.detach_timeout()
    }
}

/// Whether all servers are as they were.
pub(crate) fn is_same(changes: &Changes) -> bool {
    changes.changed.is_empty() && changes.removed.is_empty() && changes.added.is_empty()
}

fn list(servers: &[String]) -> String {
    match servers {
        [] => "are none".into(),
        [one] => format!("is only {one}"),
        several => format!("are {}", several.join(", ")),
    }
}
