//! A gateway with all that it takes to run one: who is served with what, and how it ends.

mod certificate;
mod credential;
mod reserve;
mod server_sets;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, SystemTime};

use ostler::Owner;
use ostler::keeper::{Changes, InstanceView, Principal};
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

pub use self::certificate::{TlsIdentity, TlsIdentityError};
pub use self::credential::Credential;
use self::reserve::Reserve;
pub use self::server_sets::ServerSource;
use self::server_sets::{ClientContext, ServerSets};
use crate::agents::{AGENT_TIMEOUT, Agent};
use crate::config::{self, Environment, LoadError, Names};
use crate::event_log::{self, EventLog, LoggedEvent};
use crate::mutex::lock;
use crate::reason::why;
use crate::route::Route;
use crate::router::{Router, SessionSpec};

/// A gateway, its configuration, and its clients.
#[derive(Debug)]
pub struct Gateway {
    router: Arc<Router>,
    server_sets: ServerSets,
    /// Where the configuration is, if there is one.
    configuration: Option<PathBuf>,
    /// What clients on HTTP know it by.
    identity: OnceLock<Arc<TlsIdentity>>,
    /// File descriptors that are kept for operators.
    reserve: Reserve,
    /// The last change of the configuration since it was read first.
    taken_over: Mutex<Option<ConfigChange>>,
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
pub struct ConfigChange {
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
pub enum AdmissionError {
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

impl Gateway {
    /// A gateway that takes its servers from `source`, which was read from `configuration`, and keeps what it learns
    /// in `catalog`. Nothing is started.
    pub fn new(
        owner: Owner,
        source: ServerSource,
        configuration: Option<PathBuf>,
        catalog: Option<PathBuf>,
    ) -> Arc<Self> {
        let router = Router::new(owner, std::collections::BTreeMap::new(), source.caps(), catalog);
        router.quotas().configure(source.quotas());
        Arc::new(Self {
            server_sets: ServerSets::new(source, Environment::of_process()),
            router,
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
    pub fn router(&self) -> &Arc<Router> {
        &self.router
    }

    /// What is done beside serving clients, for as long as it lives.
    pub async fn tend(&self) {
        let agent_timeout = || self.server_sets.agent_timeout().unwrap_or(AGENT_TIMEOUT);
        tokio::join!(
            self.router.tend(),
            self.event_log().write(self.router.keeper()),
            self.router.close_found_agents(agent_timeout),
        );
    }

    /// Tells every failure of an instance from now on, for as long as the returned future is polled.
    pub fn tell_failures<F: FnMut(&LoggedEvent)>(
        &self,
        mut tell: F,
    ) -> impl Future<Output = ()> + use<F> {
        let (_, mut news) = self.event_log().read();
        async move {
            loop {
                match news.recv().await {
                    Ok(event) if event.failure.is_some() => tell(&event),
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
        self.router.clients() == 0 && self.router.keeper().snapshot().instances.is_empty()
    }

    /// Reads the configuration again, and takes it over as a difference. If it can't be used, the one in
    /// force stays.
    /// Returns also what its author should know. A certificate is read again as well.
    pub fn reload(&self) -> Result<(Changes, Vec<String>), ReloadError> {
        let renewed = self.identity.get().map_or(Ok(()), |identity| identity.renew());
        let path = self.configuration.as_deref().ok_or(ReloadError::NoFile)?;
        let file = config::load(path)?;
        let mut notices: Vec<_> = file.notices.iter().map(|one| one.message.clone()).collect();
        let (changes, departure) = self.server_sets.replace(&self.router, ServerSource::File(file));
        // They go whether or not somebody waits; the answer is about the configuration.
        drop(departure);
        if !is_same(&changes) {
            let Changes { changed, removed, added, .. } = changes.clone();
            let at = event_log::millis(SystemTime::now());
            *lock(&self.taken_over) = Some(ConfigChange { at, changed, removed, added });
        }
        notices.extend(self.warnings());
        notices.extend(
            renewed.err().map(|error| format!("kept the old certificate: {}", why(&error))),
        );
        Ok((changes, notices))
    }

    /// What was taken over when the configuration last changed.
    pub(crate) fn taken_over(&self) -> Option<ConfigChange> {
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
        let settled = self.router.keeper().close().settled();
        tokio::pin!(settled, hurry);
        let left = tokio::select! {
            left = &mut settled => left,
            () = hurry => {
                self.router.keeper().hurry();
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

    pub(crate) fn server_sets(&self) -> &ServerSets {
        &self.server_sets
    }

    pub(crate) fn reserve(&self) -> &Reserve {
        &self.reserve
    }

    pub(crate) fn event_log(&self) -> &EventLog {
        self.router.event_log()
    }

    pub(crate) fn variables(&self) -> Vec<String> {
        self.server_sets.variables().iter().map(str::to_owned).collect()
    }

    /// Lets a client of this machine in.
    pub(crate) fn admit(
        &self,
        initialize: ClientHello,
        pid: Option<i32>,
    ) -> Result<SessionSpec, AdmissionError> {
        let route = self.route(initialize.server, None)?;
        let variables = initialize.variables.into_iter().collect();
        let context = ClientContext::new(variables, initialize.cwd.into(), None);
        let server_set = self.server_sets.admit(&self.router, context);
        let principal = Principal::default();
        Ok(SessionSpec {
            principal,
            agent: initialize.agent,
            route,
            server_set: Some(server_set),
            pid,
        })
    }

    /// Lets a client in that has nothing but a pass: its variables and its directory are the gateway's.
    pub(crate) fn admit_with_credential(
        &self,
        server: Option<String>,
        agent: Option<String>,
        credential: &Credential,
    ) -> Result<SessionSpec, AdmissionError> {
        let route = self.route(server, credential.servers.as_ref())?;
        let server_set = credential.server_set(|allowed| {
            let cwd = std::env::current_dir().unwrap_or_else(|_| "/".into());
            self.server_sets
                .admit(&self.router, ClientContext::new(Environment::default(), cwd, allowed))
        });
        let agent = agent.map(Agent::named);
        Ok(SessionSpec {
            principal: credential.principal.clone(),
            agent,
            route,
            server_set: Some(server_set),
            pid: None,
        })
    }

    /// The way to a server that a client may have, or to all of them.
    fn route(
        &self,
        server: Option<String>,
        allowed: Option<&Names>,
    ) -> Result<Route, AdmissionError> {
        let Some(name) = server else { return Ok(Route::All) };
        let may = |name: &str| allowed.is_none_or(|allowed| allowed.contains(name));
        let mut servers = self.server_sets.names();
        servers.retain(|name| may(name));
        if servers.contains(&name) {
            return Ok(Route::One(name.into()));
        }
        if may(&name) && self.server_sets.is_off(&name) {
            return Err(AdmissionError::Off(name));
        }
        Err(AdmissionError::UnknownServer { name, servers })
    }

    /// What lets clients on HTTP in, as the configuration says.
    pub(crate) fn credentials(&self) -> Arc<[Arc<Credential>]> {
        self.server_sets.credentials()
    }

    /// What is wrong with the configuration for this gateway: tokens that let nobody in.
    pub fn warnings(&self) -> Vec<String> {
        self.server_sets.token_warnings()
    }

    /// Reads this again whenever it reads its configuration again.
    pub(crate) fn keep(&self, identity: &Arc<TlsIdentity>) {
        self.identity.get_or_init(|| Arc::clone(identity));
    }

    /// How long a client on HTTP may be away, if the configuration says it.
    pub(crate) fn detach_timeout(&self) -> Option<Duration> {
        self.server_sets.detach_timeout()
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
