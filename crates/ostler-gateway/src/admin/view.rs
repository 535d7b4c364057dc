//! What there is, in words.

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

/// Everything that a gateway has.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Overview {
    /// Its process.
    pub pid: u32,
    /// Its configuration.
    pub configuration: Option<String>,
    /// How many clients are connected.
    pub sessions: usize,
    /// How many callers wait for an instance.
    pub waiting: usize,
    /// Its books, which balance at every moment.
    pub books: Books,
    /// Its servers.
    pub servers: Vec<ServerLine>,
    /// The instances that are not proven to be gone.
    pub instances: Vec<InstanceLine>,
}

/// A configured server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ServerLine {
    /// What people call it.
    pub name: String,
    /// How many times in a row it has failed.
    pub failures: u32,
    /// For so long it is not started again, because it has failed; in milliseconds.
    pub backing_off: Option<u64>,
    /// Why clients can't have it, if there are any who can't.
    pub missing: Vec<Missing>,
    /// Why nobody can have it, if the configuration says so.
    #[serde(default)]
    pub disabled: Option<String>,
    /// How one of its instances failed last, if one has.
    #[serde(default)]
    pub last_failure: Option<LoggedEvent>,
}

/// Why a client can't have a server.
pub type Missing = String;

/// An instance.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct InstanceLine {
    /// Its number within its gateway.
    pub number: u64,
    /// Its id in the ledger, once it has one.
    pub instance: Option<InstanceId>,
    /// What people call its server.
    pub server: String,
    /// What those have in common who share it.
    pub key: String,
    /// `starting`; `ready` (held by a session), `busy` (has calls or subscriptions), `idle` (held by no session);
    /// `draining` (waits for calls in flight), `stopping`, `failed` (stopping because of a failure), `unverified`.
    pub state: String,
    /// Why it goes, if it does.
    pub cause: Option<String>,
    /// Its process, once it runs.
    pub pid: Option<i32>,
    /// Where it is, if somebody else runs it.
    #[serde(default)]
    pub place: Option<String>,
    /// Who has asked for it first.
    pub by: String,
    /// Who holds a lease on it.
    pub leases: Vec<String>,
    /// Names of the MCP clients that hold a lease on it.
    #[serde(default)]
    pub clients: Vec<String>,
    /// How many calls and subscriptions there are.
    pub calls: usize,
    /// How many instances of its key it has replaced, one after the other, that failed or were stopped.
    pub restarts: u64,
    /// How long it has been there, in milliseconds.
    pub age: u64,
    /// How long ago it was last used, in milliseconds.
    pub unused: u64,
}

/// A client that is connected.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SessionLine {
    /// Its number.
    pub session: u64,
    /// The agent that it belongs to.
    pub agent: Option<String>,
    /// Its process.
    pub pid: Option<i32>,
    /// The server that it uses; all if none.
    pub server: Option<String>,
    /// What it calls itself.
    pub client: Option<String>,
    /// How many of its calls are with servers.
    pub calls: usize,
    /// The servers that it holds a lease on.
    pub leases: Vec<String>,
    /// How long it has been there, in milliseconds.
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

    /// `clients` has the names of MCP clients by the numbers of their sessions.
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

/// What an instance does now, and why it goes if it does.
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

/// What it is shared by, and the beginning of the hash of what it runs.
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
