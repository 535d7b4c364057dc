//! Takes snapshots of a client's servers, from its server set and the catalog.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ostler::keeper::Sharing;

use super::servers::{Editions, Servers};
use super::snapshot::{ServerView, Snapshot};
use crate::mutex::lock;
use crate::protocol::names::Names;
use crate::route::Route;
use crate::server_set::Availability;

impl Servers {
    /// Takes another snapshot. Views of servers that have not changed are kept.
    pub(super) fn renew(&mut self, editions: Editions) {
        // Another server set may allow other tools of the same server.
        let is_same_set = self.editions.is_some_and(|before| before.1 == editions.1);
        let mut changed = Vec::new();
        let mut servers = BTreeMap::new();
        for (server, availability) in self.available() {
            let view = self.view(availability);
            let before = self.snapshot.get(&server).filter(|before| {
                is_same_set && is_same_knowledge(before, &view) && before.sharing == view.sharing
            });
            let view = if let Some(before) = before {
                Arc::clone(before)
            } else {
                changed.push(Arc::clone(&server));
                Arc::new(self.with_names(&server, view))
            };
            servers.insert(server, view);
        }
        self.snapshot = Arc::new(Snapshot::new(servers));
        self.editions = Some(editions);
        if self.route == Route::All {
            self.claim(&changed);
        }
    }

    fn available(&self) -> Vec<(Arc<str>, Availability)> {
        match &self.route {
            Route::All => self.set.all(),
            Route::One(server) => {
                let one = self.set.get(server);
                one.map(|availability| (Arc::clone(server), availability)).into_iter().collect()
            }
        }
    }

    fn view(&self, availability: Availability) -> ServerView {
        let configured = availability.as_ref().map_or(Sharing::Session, |summary| summary.sharing);
        let sharing = match configured {
            Sharing::Agent if self.who.agent.is_none() => Sharing::Session,
            sharing => sharing,
        };
        let name = self.catalog_name(&availability);
        let id = availability.as_ref().map(|summary| &summary.id).ok();
        let own_resources =
            id.and_then(|id| self.upstreams.own_list(id, self.who.session, "resources/list"));
        ServerView {
            found: name.and_then(|name| self.upstreams.catalog.find(&name)),
            availability,
            sharing,
            own_resources,
            tools: Names::default(),
            prompts: Names::default(),
        }
    }

    /// Adds the qualified names, which only a client that sees all servers as one uses.
    fn with_names(&self, server: &Arc<str>, view: ServerView) -> ServerView {
        if self.route != Route::All {
            return view;
        }
        let names = |method| {
            let things: BTreeSet<String> = view.texts(method, "name").into_iter().collect();
            Names::of(server, things)
        };
        let (tools, prompts) = (names("tools/list"), names("prompts/list"));
        ServerView { tools, prompts, ..view }
    }

    /// Claims the URIs that these servers list. Listed URIs come before templates, because a URI is more specific
    /// than a template that matches it.
    fn claim(&self, servers: &[Arc<str>]) {
        let is_there = |name: &str| self.snapshot.get(name).is_some();
        let views =
            || servers.iter().filter_map(|server| Some((server, self.snapshot.get(server)?)));
        let mut uri_owners = lock(&self.uri_owners);
        for (server, view) in views() {
            uri_owners.claim(server, &view.texts("resources/list", "uri"), is_there);
            uri_owners.claim(server, &view.tool_resources(), is_there);
        }
        for (server, view) in views() {
            for template in view.texts("resources/templates/list", "uriTemplate") {
                uri_owners.claim_template(server, &template, is_there);
            }
        }
    }
}

/// Whether two views are from the same catalog entry and have the same resources of the session.
fn is_same_knowledge(one: &ServerView, other: &ServerView) -> bool {
    let is_same = match (&one.found, &other.found) {
        (Some(one), Some(other)) => {
            Arc::ptr_eq(&one.known, &other.known) && one.is_of_others == other.is_of_others
        }
        (one, other) => one.is_none() && other.is_none(),
    };
    is_same && one.own_resources == other.own_resources
}
