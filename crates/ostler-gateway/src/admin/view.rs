//! State of a gateway, as shown to operators.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use ostler::InstanceId;
use ostler::keeper::{Books, InstanceState, InstanceView, Who};
use serde::{Deserialize, Serialize};

use crate::config::Disabled;
use crate::event_log::LoggedEvent;
use crate::gateway::Gateway;
use crate::protocol::initialize::client_name;
use crate::route::Route;
use crate::router::SessionView;
use crate::variant;

/// Overview of a gateway.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Overview {
    /// Process id of the gateway.
    pub pid: u32,
    /// Path of the configuration file.
    pub configuration: Option<String>,
    /// Number of connected clients.
    pub sessions: usize,
    /// Number of callers that wait for an instance.
    pub waiting: usize,
    /// The keeper's books, which balance at every moment.
    pub books: Books,
    /// Configured servers.
    pub servers: Vec<ServerLine>,
    /// Instances that are not proven to be gone.
    pub instances: Vec<InstanceLine>,
}

/// A configured server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ServerLine {
    /// Name of the server.
    pub name: String,
    /// Number of consecutive failures.
    pub failures: u32,
    /// Remaining time before the server is started again after a failure, in milliseconds.
    pub backing_off: Option<u64>,
    /// Reasons why some clients can't use it.
    pub missing: Vec<Missing>,
    /// Why no client can use it, if the configuration disables it.
    #[serde(default)]
    pub disabled: Option<String>,
    /// Last failure of one of its instances.
    #[serde(default)]
    pub last_failure: Option<LoggedEvent>,
}

/// Why a client can't use a server.
pub type Missing = String;

/// An instance.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct InstanceLine {
    /// Number within the gateway.
    pub number: u64,
    /// Id in the ledger, once the instance has one.
    pub instance: Option<InstanceId>,
    /// Name of the server.
    pub server: String,
    /// Which sessions share it, and the start of its fingerprint.
    pub key: String,
    /// `starting`; `ready` (held by a session), `busy` (has calls or subscriptions), `idle` (held by no session);
    /// `draining` (waits for calls in flight), `stopping`, `failed` (stopping because of a failure), `unverified`.
    pub state: String,
    /// Why it drains or stops.
    pub cause: Option<String>,
    /// Process id, once it runs.
    pub pid: Option<i32>,
    /// Origin of the URL, for a remote server.
    #[serde(default)]
    pub place: Option<String>,
    /// The session that requested it first.
    pub by: String,
    /// Sessions that hold a lease on it.
    pub leases: Vec<String>,
    /// Names of the MCP clients that hold a lease on it.
    #[serde(default)]
    pub clients: Vec<String>,
    /// Number of calls and subscriptions.
    pub calls: usize,
    /// Number of failed or stopped instances of its key that it replaced in succession.
    pub restarts: u64,
    /// Age in milliseconds.
    pub age: u64,
    /// Time since its last use, in milliseconds.
    pub unused: u64,
}

/// A connected client.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SessionLine {
    /// Session number.
    pub session: u64,
    /// Agent that the client belongs to.
    pub agent: Option<String>,
    /// Process id of the client.
    pub pid: Option<i32>,
    /// The only server that the client uses; `None` for all servers.
    pub server: Option<String>,
    /// Name that the client reported.
    pub client: Option<String>,
    /// Number of calls in flight.
    pub calls: usize,
    /// Servers that the session holds a lease on.
    pub leases: Vec<String>,
    /// Age in milliseconds.
    pub age: u64,
}

impl Overview {
    pub(crate) fn of(gateway: &Gateway) -> Self {
        let snapshot = gateway.router().keeper().snapshot();
        let missing = gateway.server_sets().unavailable();
        let off: BTreeSet<String> = gateway.server_sets().off().into_iter().collect();
        let names: BTreeSet<String> =
            gateway.server_sets().names().into_iter().chain(off.clone()).collect();
        let server = |name: String| {
            let own = snapshot.servers.iter().filter(|server| variant::name(&server.name) == name);
            let worst = own.max_by_key(|server| server.failures);
            let reasons = missing.iter().filter(|(of, _)| **of == *name);
            ServerLine {
                failures: worst.map_or(0, |server| server.failures),
                backing_off: worst.and_then(|server| Some(millis(server.backing_off?))),
                missing: reasons.map(|(_, reason)| reason.to_string()).collect(),
                disabled: off.contains(&name).then(|| Disabled::Off.to_string()),
                last_failure: gateway.event_log().last_failure(&name).map(Arc::unwrap_or_clone),
                name,
            }
        };
        Self {
            pid: std::process::id(),
            configuration: gateway.configuration().map(|path| path.display().to_string()),
            sessions: gateway.router().clients(),
            waiting: snapshot.waiting,
            books: snapshot.books,
            servers: names.into_iter().map(server).collect(),
            instances: InstanceLine::all(&snapshot.instances, gateway),
        }
    }
}

impl InstanceLine {
    pub(crate) fn all(views: &[InstanceView], gateway: &Gateway) -> Vec<Self> {
        let sessions = gateway.router().sessions().into_iter();
        let named = |view: SessionView| {
            Some((view.who.session, client_name(view.info.as_deref()?.as_bytes())?))
        };
        let clients: HashMap<u64, String> = sessions.filter_map(named).collect();
        views.iter().map(|view| Self::of(view, gateway, &clients)).collect()
    }

    /// `clients` maps session numbers to names of MCP clients.
    fn of(view: &InstanceView, gateway: &Gateway, clients: &HashMap<u64, String>) -> Self {
        let (state, cause) = state_of(view);
        let holders = view.leases.iter().filter_map(|who| clients.get(&who.session));
        Self {
            number: view.number,
            instance: view.id,
            server: variant::name(&view.key.server).to_owned(),
            key: key_of(view),
            state: state.to_owned(),
            cause,
            pid: view.pid(),
            place: view.place().map(ToOwned::to_owned),
            by: view.by.to_string(),
            leases: view.leases.iter().map(Who::to_string).collect(),
            clients: holders.cloned().collect::<BTreeSet<_>>().into_iter().collect(),
            calls: view.uses,
            restarts: gateway.event_log().restarts(view.number),
            age: millis(view.age),
            unused: millis(view.unused),
        }
    }
}

/// State of an instance, and why it drains or stops.
fn state_of(view: &InstanceView) -> (&'static str, Option<String>) {
    match &view.state {
        InstanceState::Starting => ("starting", None),
        InstanceState::Ready if view.uses > 0 => ("busy", None),
        InstanceState::Ready if view.leases.is_empty() => ("idle", None),
        InstanceState::Ready => ("ready", None),
        InstanceState::Draining(cause) => ("draining", Some(cause.to_string())),
        InstanceState::Stopping(cause) if cause.is_failure() => ("failed", Some(cause.to_string())),
        InstanceState::Stopping(cause) => ("stopping", Some(cause.to_string())),
        InstanceState::Unverified => ("unverified", None),
    }
}

/// Which sessions share the instance, and the first eight digits of its fingerprint.
fn key_of(view: &InstanceView) -> String {
    let fingerprint = view.key.fingerprint.to_string();
    format!("{} ({})", view.key.whose, &fingerprint[..8])
}

impl SessionLine {
    pub(crate) fn all(gateway: &Gateway) -> Vec<Self> {
        let instances = gateway.router().keeper().snapshot().instances;
        let line = |view: SessionView| {
            let held = instances.iter().filter(|instance| {
                instance.leases.iter().any(|who| who.session == view.who.session)
            });
            let leases = held.map(|one| variant::name(&one.key.server).to_owned()).collect();
            Self {
                session: view.who.session,
                agent: view.who.agent.as_deref().map(ToOwned::to_owned),
                pid: view.pid,
                server: match &view.route {
                    Route::One(name) => Some(Arc::clone(name).to_string()),
                    Route::All => None,
                },
                client: view.info.as_deref().and_then(|info| client_name(info.as_bytes())),
                calls: view.calls,
                leases,
                age: millis(view.age),
            }
        };
        gateway.router().sessions().into_iter().map(line).collect()
    }
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
