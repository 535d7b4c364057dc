//! Aggregations: requests that wait for lists of servers that the catalog does not have yet.
//!
//! There are three kinds (`Wants`): a list over all servers, a request that names an item no known server has, and a
//! handshake or list of one server. The session begins listings or acquires leases for the missing servers, and keeps
//! the request with a deadline. Whenever the catalog changes, a task of the session ends or a deadline passes, all
//! aggregations are checked. One is finished when each missing server is known or not worth waiting for, or at its
//! deadline.
//!
//! A list that is answered without some servers is noted in `Session::promised`, and the client gets `list_changed`
//! when they become known.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ostler::keeper::Sharing;
use tokio::time::timeout_at;

use super::parcel::Parcel;
use super::{Session, list_limits};
use crate::catalog::Catalog;
use crate::client::Location;
use crate::protocol::message::{self, code};
use crate::protocol::names;
use crate::transport::Priority;
use crate::upstream::{Attempt, Downstream as _, StartFailure};

/// Time limit of a request that names an item. Its server may have to be downloaded before it starts; a failed start
/// ends the wait.
const NAMED: Duration = Duration::from_mins(2);
/// Time limit of a handshake or list of one server, whose start has limits of its own.
const HANDSHAKE: Duration = Duration::from_hours(1);
/// Most aggregations of one client at a time; each catalog change checks all of them.
const MOST: usize = 256;

/// A request that waits for lists of servers.
pub(super) struct Aggregation {
    id: Bytes,
    /// List method that the request waits for.
    method: &'static str,
    until: Instant,
    wants: Wants,
}

pub(super) enum Wants {
    /// The list itself, over all servers.
    List,
    /// The server of the item with this name, which the request has at this path.
    Named(Box<Parcel>, Path, String),
    /// The catalog entry of this server, to answer a handshake or a list.
    Server(Box<Parcel>, Arc<str>),
}

impl Wants {
    /// Reduces `servers` to those that matter for the request.
    fn of(&self, mut servers: Vec<Arc<str>>) -> Vec<Arc<str>> {
        match self {
            Self::List => {}
            Self::Named(_, _, name) => servers.retain(|server| names::may_be_of(name, server)),
            Self::Server(_, only) => servers.retain(|server| server == only),
        }
        servers
    }
}

impl Aggregation {
    /// Whether the request is `initialize`, which clients can't cancel.
    pub(super) fn is_handshake(&self) -> bool {
        let Wants::Server(parcel, _) = &self.wants else { return false };
        parcel.frame.method() == b"initialize"
    }
}

/// Path of an item's name within the parameters of a request.
pub(super) type Path = &'static [&'static str];

/// A catalog edition after `since`, or the time `until`, whichever comes first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CatalogChange {
    since: u64,
    until: Option<Instant>,
}

impl CatalogChange {
    /// Waits for a newer edition of the catalog, or until the deadline.
    pub(super) async fn wait(self, catalog: &Catalog) {
        let changes = catalog.changed_since(self.since);
        match self.until {
            Some(until) => drop(timeout_at(until.into(), changes).await),
            None => changes.await,
        }
    }
}

impl Session {
    /// Answers a request from lists of servers, now or when missing ones are known. A server that the catalog does
    /// not have is started once for all clients that ask.
    pub(super) fn aggregate(&mut self, method: &'static str, id: &Bytes, wants: Wants) {
        self.seen = self.upstreams.catalog.edition();
        let missing = wants.of(self.unknown(method));
        let limit = match &wants {
            Wants::List => {
                self.begin_listings(method);
                self.acquire_for_own_lists(method);
                list_limits::of(self.client.initialize())
            }
            Wants::Server(_, server) => {
                self.begin_listing(server);
                HANDSHAKE
            }
            // A call needs an instance of this client, whether or not it is known what the server has.
            Wants::Named(..) => {
                for server in &missing {
                    self.failures.remove(server);
                    self.acquire(server);
                }
                NAMED
            }
        };
        let aggregate =
            Aggregation { id: id.clone(), method, until: Instant::now() + limit, wants };
        if self.is_over(&aggregate, &missing) {
            self.finish_aggregation(aggregate, &missing);
        } else if self.aggregations.len() >= MOST {
            let text = format!("{MOST} requests wait for lists of servers already");
            self.client.fail(id, code::INTERNAL, &text, Some("busy"));
        } else {
            let number = self.next_number();
            self.client.calls().wait_at(id, Location::Aggregation(number));
            self.aggregations.insert(number, aggregate);
        }
    }

    /// The catalog change that aggregations or incomplete lists of this session wait for.
    pub(super) fn wanted_changes(&self) -> Option<CatalogChange> {
        let is_wanted = !self.aggregations.is_empty() || !self.promised.is_empty();
        let until = self.aggregations.values().map(|aggregate| aggregate.until).min();
        is_wanted.then_some(CatalogChange { since: self.seen, until })
    }

    /// Handles a catalog change, or the deadline of an aggregation.
    pub(super) fn on_catalog_change(&mut self) {
        self.seen = self.upstreams.catalog.edition();
        self.keep_promises();
        self.finish_aggregations();
    }

    /// Finishes the aggregations that are complete or past their deadline.
    pub(super) fn finish_aggregations(&mut self) {
        let now = Instant::now();
        let mut unknown: BTreeMap<&str, Vec<Arc<str>>> = BTreeMap::new();
        for (number, aggregate) in std::mem::take(&mut self.aggregations) {
            let all =
                unknown.entry(aggregate.method).or_insert_with(|| self.unknown(aggregate.method));
            let missing = aggregate.wants.of(all.clone());
            if aggregate.until <= now || self.is_over(&aggregate, &missing) {
                self.finish_aggregation(aggregate, &missing);
            } else {
                self.aggregations.insert(number, aggregate);
            }
        }
    }

    /// Whether no missing server will be known soon. A list waits only for the first start of a server: servers that
    /// have failed before would make every list slow.
    fn is_over(&self, aggregate: &Aggregation, missing: &[Arc<str>]) -> bool {
        let Aggregation { wants, method, .. } = aggregate;
        // A handshake needs the server's `initialize` result, but no list.
        if let Wants::Server(parcel, server) = wants
            && parcel.frame.method() == b"initialize"
            && self.found(server).is_some_and(|found| !found.known.initialize.is_empty())
        {
            return true;
        }
        missing.iter().all(|server| match (wants, self.listing_of(server)) {
            (Wants::List, _) if self.is_asked_for_own_list(server, method) => false,
            (Wants::Named(..), _) if self.server_set.sharing(server) != Sharing::Call => {
                self.failures.contains_key(server)
            }
            (Wants::List, Some(Attempt::Running { is_first })) => !is_first,
            (Wants::Named(..) | Wants::Server(..), Some(Attempt::Running { .. })) => false,
            (_, Some(Attempt::Failed(_)) | None) => true,
        })
    }

    /// Acquires the session's own instances of servers whose list the catalog never keeps. A server without the
    /// capability is not started.
    fn acquire_for_own_lists(&mut self, method: &str) {
        for server in self.server_set.names() {
            let is_for_one_call = self.server_set.sharing(&server) == Sharing::Call;
            let is_own = self.is_own_list(&server, method) && !is_for_one_call;
            if is_own && self.found(&server).is_some() && self.whole_list(&server, method).is_none()
            {
                self.failures.remove(&server);
                self.acquire(&server);
            }
        }
    }

    /// Whether the session's own instance still has to answer a list that the catalog never keeps.
    fn is_asked_for_own_list(&self, server: &Arc<str>, method: &str) -> bool {
        let is_unlisted = || {
            let leased = self.leased(server);
            leased.is_none_or(|leased| leased.attachment.upstream.lists().contains(&method))
        };
        self.is_own_list(server, method) && self.links.contains_key(server) && is_unlisted()
    }

    /// Begins a listing of each server whose list is unknown, or known only for clients with another profile.
    fn begin_listings(&self, method: &str) {
        for server in self.server_set.names() {
            let is_of_others = || self.found(&server).is_some_and(|found| found.is_of_others);
            if self.needs_listing(&server, method) || is_of_others() && !self.was_tried(&server) {
                self.begin_listing(&server);
            }
        }
    }

    /// Begins a listing, which starts an instance to learn what its server offers. The gateway owns the listing, so
    /// the result is kept even if this client leaves.
    pub(super) fn begin_listing(&self, server: &str) {
        let (Some(id), Some(name)) = (self.server_set.id(server), self.catalog_name(server)) else {
            return;
        };
        let demand = self.demand_now(server);
        let listings = &self.upstreams.listings;
        listings.begin(name, || self.scope.acquire_to_list(&id, &demand));
    }

    /// Begins one listing for clients like this one, if the catalog has the server only for another profile.
    pub(super) fn refresh(&self, server: &str) {
        let is_of_others = self.found(server).is_some_and(|found| found.is_of_others);
        if is_of_others && !self.was_tried(server) {
            self.begin_listing(server);
        }
    }

    fn was_tried(&self, server: &str) -> bool {
        self.listing_of(server).is_some()
    }

    fn listing_of(&self, server: &str) -> Option<Attempt> {
        self.upstreams.listings.attempt(&self.catalog_name(server)?)
    }

    /// Reason why a server's lists are unknown, if there is one.
    pub(super) fn why_unlisted(&self, server: &str) -> Option<StartFailure> {
        if let Some(why) = self.server_set.unavailable_reason(server) {
            return Some(StartFailure { reason: "unavailable", text: format!("{server}: {why}") });
        }
        match self.listing_of(server) {
            Some(Attempt::Failed(failure)) => Some(failure),
            Some(Attempt::Running { .. }) | None => None,
        }
    }

    fn finish_aggregation(&mut self, aggregate: Aggregation, missing: &[Arc<str>]) {
        let Aggregation { id, method, wants, .. } = aggregate;
        match wants {
            Wants::List => {
                let result = self.put_together(method);
                self.client.reply(&id, message::answer(&id, result.as_bytes()));
                self.promise(method, missing.len());
            }
            Wants::Server(parcel, server) => self.finish_waiting_for(&server, *parcel, method),
            Wants::Named(parcel, path, name) => {
                if self.forward_known(*parcel, method, path, &name).is_some() {
                    self.fail_unknown(&id, missing, &name);
                }
            }
        }
    }

    /// Answers a handshake or a list of one server after its listing has succeeded or failed.
    fn finish_waiting_for(&mut self, server: &Arc<str>, parcel: Parcel, method: &'static str) {
        let id = parcel.id();
        let known = self.found(server).map(|found| found.known);
        if parcel.frame.method() != b"initialize" {
            return self.list_or_ask(server, parcel, method, &id);
        }
        if let Some(known) = known.filter(|known| !known.initialize.is_empty()) {
            return self.answer_initialize(&id, server, &known.initialize);
        }
        let text = format!("{server}: it was never started");
        let failure = StartFailure { reason: "upstream_failed", text };
        let failure = self.why_unlisted(server).unwrap_or(failure);
        self.client.fail(&id, code::INTERNAL, &failure.text, Some(failure.reason));
    }

    /// Fails a request for an item that no server is known to have. If a server that may have it can't be reached,
    /// the error is the one that clients of that server alone get.
    fn fail_unknown(&self, id: &Bytes, silent: &[Arc<str>], name: &str) {
        let failure = silent.iter().find_map(|server| {
            let failure = self.failures.get(server).cloned();
            failure.or_else(|| self.why_unlisted(server))
        });
        if let Some(StartFailure { reason, text }) = failure {
            self.client.fail(id, code::INTERNAL, &text, Some(reason));
        } else if let Some(server) = silent.first() {
            let text = format!("{server} did not list what it offers in time");
            self.client.fail(id, code::INTERNAL, &text, Some("unavailable"));
        } else {
            let text = format!("nothing is called {name}");
            self.client.fail(id, code::INVALID_PARAMS, &text, None);
        }
    }

    /// Notes that a list was answered without this many servers, so that the client gets `list_changed` later.
    fn promise(&mut self, method: &'static str, unknown: usize) {
        self.promised.remove(method);
        if unknown > 0 {
            self.promised.insert(method, unknown);
        }
    }

    fn keep_promises(&mut self) {
        for (method, before) in std::mem::take(&mut self.promised) {
            let unknown = self.unknown(method).len();
            if unknown < before {
                let kind = method.split('/').next().unwrap_or_default();
                let changed = format!("notifications/{kind}/list_changed");
                let line = message::notification(&changed, None);
                self.client.send(line, None, Priority::Droppable);
            }
            self.promise(method, unknown);
        }
    }
}
