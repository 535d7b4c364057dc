//! Index of the items of all servers, by the names and URIs that the client uses for them.
//!
//! The index is derived from the catalog and from the client's server set. When one of these changes, only the
//! entries of changed servers are rebuilt.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;

use super::Session;
use crate::catalog::Known;
use crate::mutex::lock;
use crate::protocol::message;
use crate::protocol::names::{self, Names};

/// Editions of the catalog and of the client's server set.
type Editions = (u64, u64);

/// Items of all servers.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// Editions that the index was built from.
    editions: Option<Editions>,
    servers: BTreeMap<Arc<str>, Entry>,
}

/// Items of one server.
#[derive(Debug, Default)]
struct Entry {
    known: Option<Arc<Known>>,
    /// Result of `resources/list` that only this session sees.
    own_resources: Option<Bytes>,
    tools: Names,
    prompts: Names,
}

impl Entry {
    fn names(&self, list: &str) -> Option<&Names> {
        match list {
            "tools/list" => Some(&self.tools),
            "prompts/list" => Some(&self.prompts),
            _ => None,
        }
    }
}

impl Index {
    /// The client's name for a server's item.
    pub(super) fn ours(&self, server: &str, list: &str, thing: &str) -> Option<&str> {
        self.servers.get(server)?.names(list)?.ours(thing)
    }

    /// The server that has an item with this client's name, and the server's own name for it.
    pub(super) fn theirs(&self, list: &str, name: &str) -> Option<(Arc<str>, String)> {
        let mut servers = self.servers.iter().filter(|(server, _)| names::may_be_of(name, server));
        servers.find_map(|(server, entry)| {
            let own = entry.names(list)?.theirs(name)?;
            Some((Arc::clone(server), own.to_owned()))
        })
    }

    /// The only server with resources, if the capabilities of all servers are known.
    pub(super) fn only_with_resources(&self) -> Option<&Arc<str>> {
        let mut found = None;
        for (server, entry) in &self.servers {
            let initialize = entry.known.as_ref().map(|known| &known.initialize)?;
            if initialize.is_empty() {
                return None;
            }
            let path = ["capabilities", "resources"];
            if message::find(initialize, 0..initialize.len(), &path).is_some()
                && found.replace(server).is_some()
            {
                return None;
            }
        }
        found
    }
}

impl Session {
    /// The index, updated if the catalog or the server set has changed.
    pub(super) fn index(&mut self) -> &Index {
        let editions = (self.upstreams.catalog.edition(), self.server_set.edition());
        if self.index.editions != Some(editions) {
            self.update_index(editions);
        }
        &self.index
    }

    fn update_index(&mut self, editions: Editions) {
        let mut old = std::mem::take(&mut self.index);
        // A changed server set may allow other tools of the same server.
        let is_same_menu = old.editions.is_some_and(|(_, server_set)| server_set == editions.1);
        let mut changed = Vec::new();
        for server in self.server_set.names() {
            let known = self.found(&server).map(|found| found.known);
            let own_resources = self.own_list(&server, "resources/list");
            let is_same = |entry: &Entry| match (&entry.known, &known) {
                (Some(one), Some(other)) => Arc::ptr_eq(one, other),
                (one, other) => one.is_none() && other.is_none(),
            };
            let kept = old.servers.remove(&server).filter(|entry| {
                is_same_menu && is_same(entry) && entry.own_resources == own_resources
            });
            let entry = kept.unwrap_or_else(|| {
                changed.push(Arc::clone(&server));
                Entry { own_resources, ..self.entry(&server, known) }
            });
            self.index.servers.insert(server, entry);
        }
        self.claim(&changed);
        self.index.editions = Some(editions);
    }

    fn entry(&self, server: &Arc<str>, known: Option<Arc<Known>>) -> Entry {
        let names = |method| {
            let things: BTreeSet<String> = self.texts(server, method, "name").into_iter().collect();
            Names::of(server, things)
        };
        let (tools, prompts) = (names("tools/list"), names("prompts/list"));
        Entry { known, tools, prompts, own_resources: None }
    }

    /// Claims the URIs that these servers list. Listed URIs come before templates, because a URI is more specific
    /// than a template that matches it.
    fn claim(&self, servers: &[Arc<str>]) {
        let names: BTreeSet<Arc<str>> = self.server_set.names().into_iter().collect();
        let is_there = |name: &str| names.contains(name);
        let mut uri_owners = lock(&self.uri_owners);
        for server in servers {
            uri_owners.claim(server, &self.texts(server, "resources/list", "uri"), is_there);
            uri_owners.claim(server, &self.links(server), is_there);
        }
        for server in servers {
            for template in self.texts(server, "resources/templates/list", "uriTemplate") {
                uri_owners.claim_template(server, &template, is_there);
            }
        }
    }
}
