//! The whole gateway: configuration, clients and shutdown.
//!
//! A `Gateway` combines a `Router` with the `ServerSets`, which resolve the configuration for each client. A front
//! admits a client (`admit` for a local one, `admit_with_credential` for HTTP) and gets a `SessionSpec`, with which
//! it opens a session at the router. `reload` reads the configuration file again and applies the difference. Shutdown
//! has two steps: `closing` is cancelled when no more clients are admitted, and `closed` when the fate of all
//! instances is known.

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
use crate::server_set::AvailableServers;
use crate::storage::Storage;

/// A router with its configuration, its clients and its shutdown.
#[derive(Debug)]
pub struct Gateway {
    router: Arc<Router>,
    server_sets: ServerSets,
    /// Path of the configuration file, if there is one.
    configuration: Option<PathBuf>,
    /// TLS certificate for HTTP clients.
    identity: OnceLock<Arc<TlsIdentity>>,
    /// File descriptors that are reserved for operators.
    reserve: Reserve,
    /// Last change that a reload has applied.
    taken_over: Mutex<Option<ConfigChange>>,
    closing: CancellationToken,
    closed: CancellationToken,
    /// Instances that the shutdown could not end.
    left: OnceLock<Vec<InstanceView>>,
}

/// A local client's request for a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientHello {
    /// Server that the client wants; `None` for all.
    pub server: Option<String>,
    /// Agent of the client.
    pub agent: Option<Agent>,
    /// Working directory of the client.
    pub cwd: OsString,
    /// The client's values of the environment variables that the gateway has asked for.
    pub variables: Vec<(OsString, OsString)>,
}

/// A configuration change that a reload has applied.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigChange {
    /// Time of the change, in milliseconds since 1970.
    pub at: u64,
    /// Servers with a changed configuration.
    pub changed: Vec<String>,
    /// Removed servers.
    pub removed: Vec<String>,
    /// Added servers.
    pub added: Vec<String>,
}

/// Reason why a client gets no session.
#[derive(Debug, thiserror::Error)]
pub enum AdmissionError {
    /// The server is disabled.
    #[error("{0}: the configuration says `enabled: false`")]
    Off(String),
    /// No server has this name.
    #[error("no server is called {name}; there {}", list(servers))]
    UnknownServer {
        /// Name that the client asked for.
        name: String,
        /// Servers that the client may use.
        servers: Vec<String>,
    },
}

/// Reason why a reload has kept the present configuration.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// The gateway has no configuration file.
    #[error("this gateway has no configuration file")]
    NoFile,
    /// The new configuration can't be used.
    #[error(transparent)]
    Load(#[from] LoadError),
}

impl Gateway {
    /// Makes a gateway for the servers of `source`, which was read from `configuration`. No server is started.
    pub fn new(
        owner: Owner,
        source: ServerSource,
        configuration: Option<PathBuf>,
        storage: Storage,
    ) -> Arc<Self> {
        let router = Router::new(owner, std::collections::BTreeMap::new(), source.caps(), storage);
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

    /// The router between clients and instances.
    pub fn router(&self) -> &Arc<Router> {
        &self.router
    }

    /// Does the background work, for as long as the gateway lives.
    pub async fn tend(&self) {
        let agent_timeout = || self.server_sets.agent_timeout().unwrap_or(AGENT_TIMEOUT);
        tokio::join!(
            self.router.tend(),
            self.event_log().write(self.router.keeper()),
            self.router.close_found_agents(agent_timeout),
            self.router.write_logs(),
        );
    }

    /// Calls `tell` with every failure of an instance from now on, for as long as the returned future is polled.
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

    /// Path of the configuration file, if there is one.
    pub fn configuration(&self) -> Option<&Path> {
        self.configuration.as_deref()
    }

    /// Whether no client is connected and no instance exists.
    pub fn is_idle(&self) -> bool {
        self.router.clients() == 0 && self.router.keeper().snapshot().instances.is_empty()
    }

    /// Reads the configuration file again and applies the difference. If it can't be used, the present configuration
    /// stays in force. Returns the changes, and notices for the author of the file. The TLS certificate is read again
    /// as well.
    pub fn reload(&self) -> Result<(Changes, Vec<String>), ReloadError> {
        let renewed = self.identity.get().map_or(Ok(()), |identity| identity.renew());
        let path = self.configuration.as_deref().ok_or(ReloadError::NoFile)?;
        let file = config::load(path)?;
        let mut notices: Vec<_> = file.notices.iter().map(|one| one.message.clone()).collect();
        let (changes, departure) = self.server_sets.replace(&self.router, ServerSource::File(file));
        // The instances end even if no task waits for it; the result is about the configuration.
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

    /// Last change that a reload has applied.
    pub(crate) fn taken_over(&self) -> Option<ConfigChange> {
        lock(&self.taken_over).clone()
    }

    /// Requests the shutdown, on behalf of an operator.
    pub fn close(&self) {
        self.closing.cancel();
    }

    /// Ends all instances, and waits until the fate of each is known. Calls in flight have time to drain, unless
    /// `hurry` resolves. Returns the instances that could not be ended.
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
        self.router.write_last_logs().await;
        let left = self.left.get_or_init(|| left);
        self.closed.cancel();
        left
    }

    /// Cancelled when the shutdown begins: no more clients are admitted.
    pub fn closing(&self) -> &CancellationToken {
        &self.closing
    }

    /// Cancelled when the fate of all instances is known.
    pub(crate) fn closed(&self) -> &CancellationToken {
        &self.closed
    }

    /// Instances that could not be ended; empty until the gateway is closed.
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

    /// Admits a client on this machine.
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

    /// The servers that such a client may use, and the names of the disabled ones. Opens no session and starts no server.
    pub(crate) fn servers_for(&self, client: ClientHello) -> (AvailableServers, Vec<String>) {
        let variables = client.variables.into_iter().collect();
        let context = ClientContext::new(variables, client.cwd.into(), None);
        (self.server_sets.servers_for(&context), self.server_sets.off())
    }

    /// Admits a client that has only a token: its variables and its directory are the gateway's.
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

    /// Route to a server that the client may use, or to all of them.
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

    /// Credentials of HTTP clients, from the configuration.
    pub(crate) fn credentials(&self) -> Arc<[Arc<Credential>]> {
        self.server_sets.credentials()
    }

    /// Problems of the configuration for this gateway: tokens that admit no client.
    pub fn warnings(&self) -> Vec<String> {
        self.server_sets.token_warnings()
    }

    /// Stores the TLS certificate, which each reload reads again.
    pub(crate) fn keep(&self, identity: &Arc<TlsIdentity>) {
        self.identity.get_or_init(|| Arc::clone(identity));
    }

    /// Time that an HTTP client may be detached, if configured.
    pub(crate) fn detach_timeout(&self) -> Option<Duration> {
        self.server_sets.detach_timeout()
    }
}

/// Whether no server was changed, removed or added.
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
