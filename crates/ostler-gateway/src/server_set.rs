//! Server sets: the servers that a client may use, each in the client's own variant.
//!
//! Clients differ in environment and directory, so one configuration entry may resolve to different servers. The server
//! set of a client maps each configured name to the resolved server, or to the reason why the client can't use it. The
//! keeper knows a server by an id: its plain name, or the name with the fingerprint if variants must be told apart.
//!
//! `replace` installs a new set after a reload and returns which servers changed. Sessions look servers up for every
//! message, so the set keeps only a summary of each; `edition` tells them whether it changed.

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

/// A server that a client may use.
#[derive(Clone, Debug)]
pub struct AvailableServer {
    /// How the server is run or reached.
    pub server: Server,
    /// Which of its tools may be used.
    pub tools: Tools,
    /// Identity of the server in the catalog.
    pub identity: Identity,
}

impl AvailableServer {
    /// A server without a configuration entry.
    pub fn new(server: Server, tools: Tools) -> Self {
        Self { identity: Identity::of(&server), server, tools }
    }
}

/// For each server the client's variant, or the reason why the client can't use it.
pub type AvailableServers = BTreeMap<String, Result<AvailableServer, String>>;

/// The servers that one client may use, each in the client's own variant.
#[derive(Debug, Default)]
pub struct ServerSet {
    items: Mutex<BTreeMap<Arc<str>, Entry>>,
    /// Number of replacements.
    edition: AtomicU64,
}

/// State of one server: read for every message, and written only by `replace`.
#[derive(Clone, Debug)]
enum Entry {
    Available(ServerSummary),
    /// The client can't use the server, for this reason.
    Unavailable(Arc<str>),
}

#[derive(Clone, Debug)]
struct ServerSummary {
    /// Id of the server in the keeper.
    id: Arc<str>,
    identity: Arc<Identity>,
    sharing: Sharing,
    call_limit: Duration,
    tools: Arc<Tools>,
    /// The client's values of ambient variables, which do not distinguish variants.
    ambient: Arc<[(OsString, OsString)]>,
}

/// Ambient variables of the client that owns a server set, for instances that are started on its behalf.
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

/// Result of replacing a server set.
pub(crate) struct Replaced {
    /// Servers for the keeper, by id.
    pub(crate) servers: BTreeMap<Arc<str>, Server>,
    /// Names of servers that changed, were added or were removed.
    pub(crate) changed: BTreeSet<Arc<str>>,
}

/// How ids for the keeper are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Naming {
    /// The id is the name: only one variant exists.
    Plain,
    /// The id contains the fingerprint, to distinguish variants.
    Variants,
}

impl ServerSet {
    /// Replaces all servers of the set.
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

    /// Number that changes with every replacement.
    pub(crate) fn edition(&self) -> u64 {
        self.edition.load(Ordering::Acquire)
    }

    /// Ids of the available servers in the keeper.
    pub(crate) fn ids(&self) -> Vec<Arc<str>> {
        let id = |item: &Entry| match item {
            Entry::Available(item) => Some(Arc::clone(&item.id)),
            Entry::Unavailable(_) => None,
        };
        lock(&self.items).values().filter_map(id).collect()
    }

    /// Names of unavailable servers, with the reasons.
    pub(crate) fn unavailable(&self) -> Vec<(Arc<str>, Arc<str>)> {
        let reason = |(name, item): (&Arc<str>, &Entry)| match item {
            Entry::Available(_) => None,
            Entry::Unavailable(reason) => Some((Arc::clone(name), Arc::clone(reason))),
        };
        lock(&self.items).iter().filter_map(reason).collect()
    }

    /// Names of all servers, including unavailable ones.
    pub(crate) fn names(&self) -> Vec<Arc<str>> {
        lock(&self.items).keys().cloned().collect()
    }

    /// Why a server is unavailable, if the set contains it.
    pub(crate) fn unavailable_reason(&self, name: &str) -> Option<Arc<str>> {
        match lock(&self.items).get(name)? {
            Entry::Available(_) => None,
            Entry::Unavailable(reason) => Some(Arc::clone(reason)),
        }
    }

    /// Id of an available server in the keeper.
    pub(crate) fn id(&self, name: &str) -> Option<Arc<str>> {
        self.there(name, |item| Arc::clone(&item.id))
    }

    /// Catalog key of a server for clients of this principal with this profile.
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
