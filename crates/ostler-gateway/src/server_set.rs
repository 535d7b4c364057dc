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

    /// Catalog key of the server for clients of this principal with this profile.
    pub(crate) fn catalog_name(&self, principal: &Principal, profile: Arc<str>) -> Name {
        catalog_name(&self.identity, principal, profile)
    }
}

fn catalog_name(identity: &Identity, principal: &Principal, profile: Arc<str>) -> Name {
    let directory = identity.directory.as_deref().map(Arc::from);
    let subject = Subject { principal: principal.clone(), identity: identity.fingerprint };
    Name { subject, view: View { profile, directory } }
}

/// For each server the client's variant, or the reason why the client can't use it.
pub type AvailableServers = BTreeMap<String, Result<AvailableServer, Unavailable>>;

/// Why a client can't use a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unavailable {
    /// The reason.
    pub reason: Arc<str>,
    /// What to do about it, if the reason does not say it.
    pub advice: Option<Arc<str>>,
}

/// The servers that one client may use, each in the client's own variant.
#[derive(Debug, Default)]
pub struct ServerSet {
    items: Mutex<BTreeMap<Arc<str>, Availability>>,
    /// Number of replacements.
    edition: AtomicU64,
}

/// Settings of a server, or the reason why the client can't use it.
pub(crate) type Availability = Result<Arc<ServerSummary>, Unavailable>;

/// Settings of a server that sessions need.
#[derive(Debug)]
pub(crate) struct ServerSummary {
    /// Id of the server in the keeper.
    pub(crate) id: Arc<str>,
    identity: Identity,
    /// Sharing as configured.
    pub(crate) sharing: Sharing,
    /// Time limit of a call.
    pub(crate) call_limit: Duration,
    pub(crate) tools: Arc<Tools>,
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
            Ok(item) if *item.id == *server => Some(item.ambient.to_vec()),
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
                    Ok(Arc::new(summary))
                }
                Err(unavailable) => Err(unavailable),
            };
            items.insert(Arc::from(name), item);
        }
        let mut held = lock(&self.items);
        let names: BTreeSet<Arc<str>> = held.keys().chain(items.keys()).cloned().collect();
        let is_other = |name: &Arc<str>| match (held.get(name), items.get(name)) {
            (Some(Ok(one)), Some(Ok(other))) => one.id != other.id || one.tools != other.tools,
            (Some(Err(_)), Some(Err(_))) => false,
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

    /// All servers of the set, including unavailable ones.
    pub(crate) fn all(&self) -> Vec<(Arc<str>, Availability)> {
        let items = lock(&self.items);
        items.iter().map(|(name, item)| (Arc::clone(name), item.clone())).collect()
    }

    pub(crate) fn get(&self, name: &str) -> Option<Availability> {
        lock(&self.items).get(name).cloned()
    }

    /// Ids of the available servers in the keeper.
    pub(crate) fn ids(&self) -> Vec<Arc<str>> {
        let available = |item: &Availability| item.as_ref().map(|item| Arc::clone(&item.id)).ok();
        lock(&self.items).values().filter_map(available).collect()
    }

    /// Names of unavailable servers, with the reasons.
    pub(crate) fn unavailable(&self) -> Vec<(Arc<str>, Arc<str>)> {
        let items = self.all().into_iter();
        items.filter_map(|(name, item)| Some((name, item.err()?.reason))).collect()
    }

    /// Why a server is unavailable, if the set contains it.
    pub(crate) fn unavailable_reason(&self, name: &str) -> Option<Unavailable> {
        self.get(name)?.err()
    }

    /// Id of an available server in the keeper.
    pub(crate) fn id(&self, name: &str) -> Option<Arc<str>> {
        self.get(name)?.ok().map(|item| Arc::clone(&item.id))
    }

    pub(crate) fn sharing(&self, name: &str) -> Sharing {
        self.get(name).and_then(Result::ok).map_or(Sharing::Session, |item| item.sharing)
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
            identity,
            sharing: server.sharing,
            call_limit: server.limits.call,
            tools: Arc::new(tools),
            ambient: server.spec().map(|spec| server.ambient.of(spec)).unwrap_or_default().into(),
        }
    }

    /// Catalog key of the server for clients of this principal with this profile.
    pub(crate) fn catalog_name(&self, principal: &Principal, profile: Arc<str>) -> Name {
        catalog_name(&self.identity, principal, profile)
    }
}
