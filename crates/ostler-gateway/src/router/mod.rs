//! Router: connects clients to instances.
//!
//! A router owns the keeper, which runs the instances, the `Upstreams` with the catalog, and a list of connected
//! clients. `open_session` opens a session for a client; `serve` does so for a client at two pipes and runs it. Each
//! client has a `ServerSet`. A reload changes the sets in place: the keeper drains and ends servers that are in no
//! set any more, and clients whose set has changed get `list_changed`. The router does its background work while
//! `tend` is polled.

mod lists;
mod tend;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use ostler::Owner;
use ostler::keeper::{Caps, Changes, Config, Departure, Keeper, Principal, Server, Who};
use tokio::io::{AsyncRead, AsyncWrite};

pub(crate) use self::lists::{ListError, whole_list};
use crate::agents::{Agent, AgentSession, DetectedAgents, Origin};
use crate::catalog::{Catalog, Name};
use crate::client::{Client, Memory};
use crate::event_log::EventLog;
use crate::mutex::lock;
use crate::protocol::message;
use crate::quota::{ByteBudget, Quotas};
use crate::route::Route;
use crate::server_logs::ServerLogs;
use crate::server_set::{
    Availability, AvailableServer, AvailableServers, ClientVariables, Naming, Replaced, ServerSet,
};
use crate::session::{Presence, Session, SessionContext, SessionHandle, SessionLimits, UriOwners};
use crate::storage::Storage;
use crate::transport::pipe::{Input, Output};
use crate::transport::{ClientSink, Priority};
use crate::upstream::{Downstream as _, Upstreams};

/// Identity of a client, and the servers that it wants.
#[derive(Clone, Debug)]
pub struct SessionSpec {
    /// Principal of the client: the local user, or a named token.
    pub principal: Principal,
    /// Agent of the client, if known.
    pub agent: Option<Agent>,
    /// Servers that the client wants.
    pub route: Route,
    /// Servers that the client may use; `None` for the router's own set.
    pub server_set: Option<Arc<ServerSet>>,
    /// Process id of a client on this machine.
    pub pid: Option<i32>,
}

impl SessionSpec {
    /// A client of the local user, with the router's own server set.
    pub fn new(agent: Option<String>, route: Route) -> Self {
        let agent = agent.map(Agent::named);
        Self { principal: Principal::default(), agent, route, server_set: None, pid: None }
    }
}

/// Connects clients to the instances of servers.
#[derive(Debug)]
pub struct Router {
    keeper: Keeper,
    upstreams: Arc<Upstreams>,
    /// Stderr of instances; `None` if it is not kept.
    logs: Option<Arc<ServerLogs>>,
    /// Server set of clients that have none of their own.
    server_set: Arc<ServerSet>,
    connected_clients: Mutex<Vec<ConnectedClient>>,
    detected_agents: Arc<DetectedAgents>,
    /// Recent events, for operators.
    event_log: Arc<EventLog>,
    /// URI owners of each principal.
    uri_owners: Mutex<HashMap<Principal, Arc<Mutex<UriOwners>>>>,
    /// Quotas and usage of each principal.
    quotas: Quotas,
    limits: SessionLimits,
    last_client: AtomicU64,
}

/// A client that is or was connected. Entries of former clients are removed when the next client connects.
#[derive(Clone, Debug)]
pub(crate) struct ConnectedClient {
    client: Weak<Client>,
    who: Who,
    route: Route,
    server_set: Weak<ServerSet>,
    pid: Option<i32>,
    since: Instant,
}

impl ConnectedClient {
    /// Whether the client sees the catalog entry with this name.
    pub(crate) fn sees(&self, name: &Name) -> bool {
        let (Some(client), Some(server_set)) = (self.client.upgrade(), self.server_set.upgrade())
        else {
            return false;
        };
        let is_shown = |item: &Availability| {
            let Ok(server) = item else { return false };
            let profile = client.list_profile(server.sharing);
            server.catalog_name(&self.who.principal, profile) == *name
        };
        match &self.route {
            Route::One(server) => server_set.get(server).is_some_and(|item| is_shown(&item)),
            Route::All => server_set.all().iter().any(|(_, item)| is_shown(item)),
        }
    }
}

/// A connected client, as operators see it.
#[derive(Clone, Debug)]
pub struct SessionView {
    /// Principal, agent and session of the client.
    pub who: Who,
    /// Servers that the client uses.
    pub route: Route,
    /// Process id of the client, if known.
    pub pid: Option<i32>,
    /// The client's `clientInfo`, as JSON in the client's own writing.
    pub info: Option<String>,
    /// Number of calls in flight.
    pub calls: usize,
    /// Time since the client connected.
    pub age: Duration,
}

impl Router {
    /// Makes a router for these servers. It does its work while [`tend`](Self::tend) is polled.
    pub fn new(
        owner: Owner,
        available: BTreeMap<String, AvailableServer>,
        caps: Caps,
        storage: Storage,
    ) -> Arc<Self> {
        Self::with_limits(owner, available, caps, storage, SessionLimits::default())
    }

    /// Makes a router with these limits for its sessions.
    pub fn with_limits(
        owner: Owner,
        available: BTreeMap<String, AvailableServer>,
        caps: Caps,
        storage: Storage,
        limits: SessionLimits,
    ) -> Arc<Self> {
        let upstreams = Arc::new(Upstreams::new(Catalog::new(storage.catalog)));
        let logs = storage.logs.map(|logs| Arc::new(ServerLogs::new(logs)));
        let server_set = Arc::new(ServerSet::default());
        let servers = server_set.replace(plain(available), Naming::Plain).servers;
        let config = config_of((&upstreams, logs.as_ref()), servers, caps);
        Arc::new(Self {
            keeper: Keeper::new(owner, config),
            upstreams,
            logs,
            server_set,
            connected_clients: Mutex::default(),
            detected_agents: Arc::default(),
            event_log: Arc::default(),
            uri_owners: Mutex::default(),
            quotas: Quotas::default(),
            limits,
            last_client: AtomicU64::new(0),
        })
    }

    /// Applies another configuration as a difference.
    pub fn replace(
        &self,
        available: BTreeMap<String, AvailableServer>,
        caps: Caps,
    ) -> (Changes, Departure) {
        let Replaced { servers, changed } =
            self.server_set.replace(plain(available), Naming::Plain);
        let replaced = self.keeper.replace(config_of(self.attendants(), servers, caps));
        self.tell_replaced(&self.server_set, &changed);
        replaced
    }

    /// Makes the server set of one client.
    pub fn server_set(&self, available: AvailableServers) -> Arc<ServerSet> {
        let server_set = Arc::new(ServerSet::default());
        self.add(server_set.replace(available, Naming::Variants).servers);
        server_set
    }

    /// Applies other servers to each of these sets as a difference. Servers that are in no set any more drain and
    /// end.
    pub fn replace_server_sets(
        &self,
        server_sets: Vec<(Arc<ServerSet>, AvailableServers)>,
        caps: Caps,
    ) -> Departure {
        let mut all = BTreeMap::new();
        let mut changes = Vec::new();
        for (server_set, available) in server_sets {
            let Replaced { servers, changed } = server_set.replace(available, Naming::Variants);
            // Added at once, so that a client that requests a new server now is not refused.
            self.add(servers.clone());
            all.extend(servers);
            changes.push((server_set, changed));
        }
        let (_, departure) = self.keeper.replace(config_of(self.attendants(), all, caps));
        for (server_set, changed) in changes {
            self.tell_replaced(&server_set, &changed);
        }
        departure
    }

    /// Serves a client at two pipes until its input ends, it stops reading, or `gone` resolves.
    pub async fn serve(
        self: &Arc<Self>,
        spec: SessionSpec,
        input: impl AsyncRead + Unpin,
        output: impl AsyncWrite + Send + Unpin + 'static,
        gone: impl Future<Output = ()>,
    ) {
        let output = Arc::new(Output::new(output));
        let flushed = Arc::clone(&output);
        let gone = async move {
            tokio::select! {
                () = gone => {}
                () = flushed.flush() => {}
            }
        };
        let budget = ByteBudget::new(self.quotas.account(&spec.principal));
        let handle = self.open_session(spec, Memory::default(), output, budget);
        handle.serve(Input::new(input), gone).await;
        handle.close();
    }

    /// Opens a session for a client, with the state that an earlier session has left.
    pub(crate) fn open_session(
        self: &Arc<Self>,
        spec: SessionSpec,
        memory: Memory,
        out: Arc<dyn ClientSink>,
        budget: Arc<ByteBudget>,
    ) -> SessionHandle {
        let number = self.last_client.fetch_add(1, Ordering::Relaxed) + 1;
        let client = Arc::new(Client::new(number, out, Arc::clone(budget.account()), memory));
        // Counted before the scope is opened, so that the agent is not closed from then on.
        let agent_session = self.enter_agent(&spec);
        let SessionSpec { route, server_set, pid, principal, agent, .. } = spec;
        let server_set = server_set.unwrap_or_else(|| Arc::clone(&self.server_set));
        let its = Arc::new(ClientVariables::of(&server_set));
        let scope = match &agent {
            Some(agent) => self.keeper.agent_of(&principal, &agent.name).session_amid(its),
            None => self.keeper.session_amid(&principal, its),
        };
        let connected = ConnectedClient {
            client: Arc::downgrade(&client),
            who: scope.who().clone(),
            route: route.clone(),
            server_set: Arc::downgrade(&server_set),
            pid,
            since: Instant::now(),
        };
        {
            let mut connected_clients = lock(&self.connected_clients);
            connected_clients.retain(|connected| connected.client.strong_count() > 0);
            connected_clients.push(connected);
        }
        let connected = (&route, pid);
        let presence =
            Presence::new(&self.event_log, &client, scope.who(), connected, agent_session);
        let context = SessionContext {
            upstreams: Arc::clone(&self.upstreams),
            uri_owners: self.uri_owners(&principal),
            limits: self.limits,
        };
        SessionHandle::new(Session::new(
            context, client, scope, budget, presence, route, server_set,
        ))
    }

    fn enter_agent(&self, spec: &SessionSpec) -> Option<AgentSession> {
        let agent = spec.agent.as_ref().filter(|agent| agent.origin == Origin::Found)?;
        Some(self.detected_agents.enter(&spec.principal, &agent.name))
    }

    /// Closes agents that ostler recognised by itself once they have had no session for `timeout`. Never returns.
    pub(crate) async fn close_found_agents(&self, timeout: impl Fn() -> Duration) {
        let close = |principal: &Principal, name: &str| {
            // The instances end even if no task waits for it.
            drop(self.keeper.agent_of(principal, name).close());
        };
        self.detected_agents.close_unused(timeout, close).await;
    }

    /// The keeper of the router's instances.
    pub fn keeper(&self) -> &Keeper {
        &self.keeper
    }

    /// Number of connected clients.
    pub fn clients(&self) -> usize {
        lock(&self.connected_clients)
            .iter()
            .filter(|connected| connected.client.strong_count() > 0)
            .count()
    }

    /// All connected clients.
    pub fn sessions(&self) -> Vec<SessionView> {
        let connected_clients = lock(&self.connected_clients).clone();
        let view = |connected: ConnectedClient| {
            let client = connected.client.upgrade()?;
            let info = client
                .initialize()
                .map(|initialize| String::from_utf8_lossy(&initialize.info).into());
            Some(SessionView {
                who: connected.who,
                route: connected.route,
                pid: connected.pid,
                info,
                calls: client.calls().in_flight(),
                age: connected.since.elapsed(),
            })
        };
        connected_clients.into_iter().filter_map(view).collect()
    }

    /// Sends `list_changed` to the initialized clients that `concerns` accepts.
    pub(crate) fn tell_changed(&self, method: &str, concerns: impl Fn(&ConnectedClient) -> bool) {
        let kind = method.split('/').next().unwrap_or_default();
        let line = message::notification(&format!("notifications/{kind}/list_changed"), None);
        let connected_clients = lock(&self.connected_clients).clone();
        for connected in connected_clients {
            let Some(client) = connected.client.upgrade() else { continue };
            if client.is_initialized() && concerns(&connected) {
                client.send(line.clone(), None, Priority::Droppable);
            }
        }
    }

    /// What servers have listed.
    pub(crate) fn catalog(&self) -> &Catalog {
        &self.upstreams.catalog
    }

    /// URI owners for the clients of one principal.
    fn uri_owners(&self, principal: &Principal) -> Arc<Mutex<UriOwners>> {
        Arc::clone(lock(&self.uri_owners).entry(principal.clone()).or_default())
    }

    pub(crate) fn event_log(&self) -> &EventLog {
        &self.event_log
    }

    pub(crate) fn quotas(&self) -> &Quotas {
        &self.quotas
    }

    /// Writes stderr of instances to their logs. Never returns.
    pub(crate) async fn write_logs(&self) {
        if let Some(logs) = &self.logs {
            logs.write().await;
        }
    }

    /// Writes what is left of it when the gateway ends.
    pub(crate) async fn write_last_logs(&self) {
        if let Some(logs) = &self.logs {
            logs.write_last().await;
        }
    }

    fn attendants(&self) -> Attendants<'_> {
        (&self.upstreams, self.logs.as_ref())
    }

    fn upstreams(&self) -> &Upstreams {
        &self.upstreams
    }

    /// Sends `list_changed` to the clients of a server set that has changed.
    fn tell_replaced(&self, server_set: &Arc<ServerSet>, changed: &BTreeSet<Arc<str>>) {
        if changed.is_empty() {
            return;
        }
        for method in ["tools/list", "prompts/list", "resources/list"] {
            self.tell_changed(method, |connected| {
                let sees = match &connected.route {
                    Route::All => true,
                    Route::One(name) => changed.contains(name),
                };
                sees && std::ptr::eq(connected.server_set.as_ptr(), Arc::as_ptr(server_set))
            });
        }
    }

    fn add(&self, servers: BTreeMap<Arc<str>, Server>) {
        for (id, server) in servers {
            if self.keeper.server(&id).is_none() {
                self.keeper.add(&id, attended(self.attendants(), server));
            }
        }
    }
}

fn plain(available: BTreeMap<String, AvailableServer>) -> AvailableServers {
    available.into_iter().map(|(name, available_server)| (name, Ok(available_server))).collect()
}

/// The parts of the gateway that the keeper calls: for messages of instances, and for their stderr.
type Attendants<'a> = (&'a Arc<Upstreams>, Option<&'a Arc<ServerLogs>>);

/// The keeper's part of a configuration.
fn config_of(
    attendants: Attendants<'_>,
    servers: BTreeMap<Arc<str>, Server>,
    caps: Caps,
) -> Config {
    let attended =
        |(id, server): (Arc<str>, Server)| (id.to_string(), attended(attendants, server));
    Config { servers: servers.into_iter().map(attended).collect(), caps }
}

/// A server with the gateway's handshake, listener and log.
pub(crate) fn attended((upstreams, logs): Attendants<'_>, mut server: Server) -> Server {
    (server.handshake, server.listener) = (Arc::clone(upstreams) as _, Arc::clone(upstreams) as _);
    server.stderr = logs.map(|logs| Arc::clone(logs) as _);
    server
}
