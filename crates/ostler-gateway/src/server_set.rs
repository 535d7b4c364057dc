//! What a client may use.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use ostler::keeper::{Principal, Server, Sharing, Surroundings};

use crate::catalog::{Name, Subject, View};
use crate::config::Identity;
use crate::mutex::lock;
use crate::tools::Tools;
use crate::variant;

/// A server as the gateway offers it.
#[derive(Clone, Debug)]
pub struct AvailableServer {
    /// How it is run.
    pub server: Server,
    /// Which of its tools may be used.
    pub tools: Tools,
    /// What the configuration says of it.
    pub identity: Identity,
}

impl AvailableServer {
    /// Of a server that no configuration names.
    pub fn new(server: Server, tools: Tools) -> Self {
        Self { identity: Identity::of(&server), server, tools }
    }
}

/// For each server what a client can have of it: itself, or the reason why not.
pub type AvailableServers = BTreeMap<String, Result<AvailableServer, String>>;

/// The servers that one client sees, each in the variant that is the client's own.
#[derive(Debug, Default)]
pub struct ServerSet {
    items: Mutex<BTreeMap<Arc<str>, Entry>>,
    /// How many times it was changed.
    edition: AtomicU64,
}

/// What is looked at by every message, and changed by a reload only.
#[derive(Clone, Debug)]
enum Entry {
    Available(ServerSummary),
    /// It can't be had, for this reason.
    Unavailable(Arc<str>),
}

#[derive(Clone, Debug)]
struct ServerSummary {
    /// What the keeper calls it.
    id: Arc<str>,
    identity: Arc<Identity>,
    sharing: Sharing,
    call_limit: Duration,
    tools: Arc<Tools>,
    /// The client's values of the variables that don't tell two runs of the server apart.
    ambient: Arc<[(OsString, OsString)]>,
}

/// The ambient variables of the client that has a menu, for the instances that are started on its behalf.
#[derive(Debug)]
pub(crate) struct ClientVariables(Weak<ServerSet>);

impl ClientVariables {
    pub(crate) fn of(server_set: &Arc<ServerSet>) -> Self {
        Self(Arc::downgrade(server_set))
    }
}

impl Surroundings for ClientVariables {
    fn of(&self, server: &str) -> Option<Vec<(OsString, OsString)>> {
        let server_set = self.0.upgrade()?;
        let items = lock(&server_set.items);
        items.values().find_map(|item| match item {
            Entry::Available(item) if *item.id == *server => Some(item.ambient.to_vec()),
            _ => None,
        })
    }
}

/// What follows from other offers on a menu.
pub(crate) struct Replaced {
    /// What the keeper has to know.
    pub(crate) servers: BTreeMap<Arc<str>, Server>,
    /// The servers that are others than before, or have come, or have gone.
    pub(crate) changed: BTreeSet<Arc<str>>,
}

/// How the keeper calls the servers of a menu.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Naming {
    /// As everybody does: there is only one variant.
    Plain,
    /// So that variants are told apart.
    Variants,
}

impl ServerSet {
    /// Takes over these offers.
    pub(crate) fn replace(&self, available: AvailableServers, naming: Naming) -> Replaced {
        let mut servers = BTreeMap::new();
        let mut items = BTreeMap::new();
        for (name, available_server) in available {
            let item = match available_server {
                Ok(AvailableServer { server, tools, identity }) => {
                    let summary = ServerSummary::new(&name, &server, tools, identity, naming);
                    servers.insert(Arc::clone(&summary.id), server);
                    Entry::Available(summary)
                }
                Err(reason) => Entry::Unavailable(reason.into()),
            };
            items.insert(Arc::from(name), item);
        }
        let mut held = lock(&self.items);
        let names: BTreeSet<Arc<str>> = held.keys().chain(items.keys()).cloned().collect();
        let is_other = |name: &Arc<str>| match (held.get(name), items.get(name)) {
            (Some(Entry::Available(one)), Some(Entry::Available(other))) => {
                one.id != other.id || one.tools != other.tools
            }
            (Some(Entry::Unavailable(_)), Some(Entry::Unavailable(_))) => false,
            _ => true,
        };
        let changed = names.into_iter().filter(is_other).collect();
        *held = items;
        self.edition.fetch_add(1, Ordering::Release);
        Replaced { servers, changed }
    }

    /// Another number whenever it was changed.
    pub(crate) fn edition(&self) -> u64 {
        self.edition.load(Ordering::Acquire)
    }

    /// What the keeper calls the servers on it.
    pub(crate) fn ids(&self) -> Vec<Arc<str>> {
        let id = |item: &Entry| match item {
            Entry::Available(item) => Some(Arc::clone(&item.id)),
            Entry::Unavailable(_) => None,
        };
        lock(&self.items).values().filter_map(id).collect()
    }

    /// The servers that can't be had, and why.
    pub(crate) fn unavailable(&self) -> Vec<(Arc<str>, Arc<str>)> {
        let reason = |(name, item): (&Arc<str>, &Entry)| match item {
            Entry::Available(_) => None,
            Entry::Unavailable(reason) => Some((Arc::clone(name), Arc::clone(reason))),
        };
        lock(&self.items).iter().filter_map(reason).collect()
    }

    /// The servers, also those that can't be had.
    pub(crate) fn names(&self) -> Vec<Arc<str>> {
        lock(&self.items).keys().cloned().collect()
    }

    /// Why a server can't be had, if that is known.
    pub(crate) fn unavailable_reason(&self, name: &str) -> Option<Arc<str>> {
        match lock(&self.items).get(name)? {
            Entry::Available(_) => None,
            Entry::Unavailable(reason) => Some(Arc::clone(reason)),
        }
    }

    /// What the keeper calls a server.
    pub(crate) fn id(&self, name: &str) -> Option<Arc<str>> {
        self.there(name, |item| Arc::clone(&item.id))
    }

    /// Where the catalog keeps what a server says to clients of this principal with this profile.
    pub(crate) fn catalog_name(
        &self,
        server: &str,
        principal: &Principal,
        profile: Arc<str>,
    ) -> Option<Name> {
        let identity = self.there(server, |item| Arc::clone(&item.identity))?;
        let directory = identity.directory.as_deref().map(Arc::from);
        let subject = Subject { principal: principal.clone(), identity: identity.fingerprint };
        Some(Name { subject, view: View { profile, directory } })
    }

    pub(crate) fn sharing(&self, name: &str) -> Sharing {
        self.there(name, |item| item.sharing).unwrap_or(Sharing::Session)
    }

    pub(crate) fn call_limit(&self, name: &str) -> Duration {
        self.there(name, |item| item.call_limit).unwrap_or_default()
    }

    pub(crate) fn tools(&self, name: &str) -> Arc<Tools> {
        self.there(name, |item| Arc::clone(&item.tools)).unwrap_or_default()
    }

    fn there<T>(&self, name: &str, get: impl FnOnce(&ServerSummary) -> T) -> Option<T> {
        match lock(&self.items).get(name)? {
            Entry::Available(summary) => Some(get(summary)),
            Entry::Unavailable(_) => None,
        }
    }
}

impl ServerSummary {
    fn new(name: &str, server: &Server, tools: Tools, identity: Identity, naming: Naming) -> Self {
        let fingerprint = server.fingerprint();
        Self {
            id: match naming {
                Naming::Plain => name.into(),
                Naming::Variants => variant::id(name, fingerprint),
            },
            identity: Arc::new(identity),
            sharing: server.sharing,
            call_limit: server.limits.call,
            tools: Arc::new(tools),
            ambient: server.spec().map(|spec| server.ambient.of(spec)).unwrap_or_default().into(),
        }
    }
}
