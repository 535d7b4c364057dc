//! Aggregations: requests that wait for lists of servers that the catalog does not have yet.
//!
//! There are three kinds (`Wants`): a list over all servers, a request that names an item no known server has, and a
//! handshake or list of one server. The session begins listings or acquires leases for the missing servers, and keeps
//! the request with a deadline. Whenever the catalog changes, a task of the session ends or a deadline passes, all
//! aggregations are checked. One is finished when each missing server is known or not worth waiting for, or at its
//! deadline.
//!
//! A list that is answered without some servers is noted in `promised`, and the client gets `list_changed`
//! when they become known.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ostler::keeper::Sharing;
use tokio::time::timeout_at;

use super::request::ClientRequest;
use super::servers::Search;
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

/// The requests of a session that wait for lists of servers.
#[derive(Default)]
pub(super) struct Aggregations {
    /// Requests, in order of arrival.
    waiting: BTreeMap<u64, Aggregation>,
    /// Catalog edition that the session has last acted on.
    seen: u64,
    /// List methods that were answered without some servers, and the number of those servers. The client gets
    /// `list_changed` when one of them becomes known.
    promised: BTreeMap<&'static str, usize>,
}

/// A request that waits for lists of servers.
struct Aggregation {
    id: Bytes,
    /// List method that the request waits for.
    method: &'static str,
    until: Instant,
    wants: Wants,
}

pub(super) enum Wants {
    /// The list itself, over all servers.
    List,
    /// The server that has this item.
    Item(Box<ClientRequest>, Search),
    /// The catalog entry of this server, to answer a handshake or a list.
    Server(Box<ClientRequest>, Arc<str>),
}

impl Wants {
    /// Reduces `servers` to those that matter for the request.
    fn of(&self, mut servers: Vec<Arc<str>>) -> Vec<Arc<str>> {
        match self {
            Self::List => {}
            Self::Item(_, item) => servers.retain(|server| names::may_be_of(&item.name, server)),
            Self::Server(_, only) => servers.retain(|server| server == only),
        }
        servers
    }
}

impl Aggregations {
    /// The catalog change that requests or incomplete lists wait for.
    pub(super) fn wanted_changes(&self) -> Option<CatalogChange> {
        let is_wanted = !self.waiting.is_empty() || !self.promised.is_empty();
        let until = self.waiting.values().map(|aggregation| aggregation.until).min();
        is_wanted.then_some(CatalogChange { since: self.seen, until })
    }

    /// Takes a request back. Returns false if it is not here, or can't be cancelled.
    pub(super) fn withdraw(&mut self, number: u64) -> bool {
        let is_cancellable = self.waiting.get(&number).is_some_and(|one| !one.is_handshake());
        is_cancellable && self.waiting.remove(&number).is_some()
    }

    /// Notes that a list was answered without this many servers, so that the client gets `list_changed` later.
    fn promise(&mut self, method: &'static str, unknown: usize) {
        self.promised.remove(method);
        if unknown > 0 {
            self.promised.insert(method, unknown);
        }
    }
}

impl Aggregation {
    /// Whether the request is `initialize`, which clients can't cancel.
    fn is_handshake(&self) -> bool {
        let Wants::Server(request, _) = &self.wants else { return false };
        request.is_handshake()
    }
}

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
        self.aggregations.seen = self.upstreams.catalog.edition();
        let missing = wants.of(self.servers.now().unknown(method));
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
            Wants::Item(..) => {
                for server in &missing {
                    self.link(server).forget_failure();
                    self.acquire(server);
                }
                NAMED
            }
        };
        let until = Instant::now() + limit;
        let aggregation = Aggregation { id: id.clone(), method, until, wants };
        if self.is_over(&aggregation, &missing) {
            self.finish_aggregation(aggregation, &missing);
        } else if self.aggregations.waiting.len() >= MOST {
            let text = format!("{MOST} requests wait for lists of servers already");
            self.client.fail(id, code::INTERNAL, &text, Some("busy"));
        } else {
            let number = self.next_number();
            self.client.calls().wait_at(id, Location::Aggregation(number));
            self.aggregations.waiting.insert(number, aggregation);
        }
    }

    /// Handles a catalog change, or the deadline of an aggregation.
    pub(super) fn on_catalog_change(&mut self) {
        self.aggregations.seen = self.upstreams.catalog.edition();
        self.keep_promises();
        self.finish_aggregations();
    }

    /// Finishes the aggregations that are complete or past their deadline.
    pub(super) fn finish_aggregations(&mut self) {
        if self.aggregations.waiting.is_empty() {
            return;
        }
        let now = Instant::now();
        let servers = Arc::clone(self.servers.now());
        let mut unknown: BTreeMap<&str, Vec<Arc<str>>> = BTreeMap::new();
        for (number, aggregation) in std::mem::take(&mut self.aggregations.waiting) {
            let method = aggregation.method;
            let all = unknown.entry(method).or_insert_with(|| servers.unknown(method));
            let missing = aggregation.wants.of(all.clone());
            if aggregation.until <= now || self.is_over(&aggregation, &missing) {
                self.finish_aggregation(aggregation, &missing);
            } else {
                self.aggregations.waiting.insert(number, aggregation);
            }
        }
    }

    /// Whether no missing server will be known soon. A list waits only for the first start of a server: servers that
    /// have failed before would make every list slow.
    fn is_over(&mut self, aggregation: &Aggregation, missing: &[Arc<str>]) -> bool {
        let Aggregation { wants, method, .. } = aggregation;
        // A handshake needs the server's `initialize` result, but no list.
        if let Wants::Server(request, server) = wants
            && request.is_handshake()
            && self.initialize_result(server).is_some()
        {
            return true;
        }
        let servers = Arc::clone(self.servers.now());
        missing.iter().all(|server| match (wants, self.listing_of(server)) {
            (Wants::List, _) if self.is_asked_for_own_list(server, method) => false,
            (Wants::Item(..), _) if servers.sharing(server) != Sharing::Call => {
                self.failure(server).is_some()
            }
            (Wants::List, Some(Attempt::Running { is_first })) => !is_first,
            (Wants::Item(..) | Wants::Server(..), Some(Attempt::Running { .. })) => false,
            (_, Some(Attempt::Failed(_)) | None) => true,
        })
    }

    fn finish_aggregation(&mut self, aggregation: Aggregation, missing: &[Arc<str>]) {
        let Aggregation { id, method, wants, .. } = aggregation;
        match wants {
            Wants::List => {
                let result = self.merged_list(method);
                self.client.reply(&id, message::answer(&id, result.as_bytes()));
                self.aggregations.promise(method, missing.len());
            }
            Wants::Server(request, server) => self.finish_waiting_for(&server, *request, method),
            Wants::Item(request, item) => match self.servers.find(&request, &item) {
                Some(decision) => self.carry_out_decision(decision, *request),
                None => self.fail_unknown(&id, missing, &item.name),
            },
        }
    }

    /// Answers a handshake or a list of one server after its listing has succeeded or failed.
    fn finish_waiting_for(
        &mut self,
        server: &Arc<str>,
        request: ClientRequest,
        method: &'static str,
    ) {
        if !request.is_handshake() {
            return self.list_or_ask(server, request, method);
        }
        let id = request.id();
        if let Some(result) = self.initialize_result(server) {
            return self.answer_initialize(&id, server, &result);
        }
        let text = format!("{server}: it was never started");
        let failure = StartFailure::new("upstream_failed", text);
        let failure = self.why_unlisted(server).unwrap_or(failure);
        self.fail(&request, &failure);
    }

    /// Fails a request for an item that no server is known to have. If a server that may have it can't be reached,
    /// the error is the one that clients of that server alone get.
    fn fail_unknown(&mut self, id: &Bytes, silent: &[Arc<str>], name: &str) {
        let failure = silent.iter().find_map(|server| {
            let failure = self.failure(server).cloned();
            failure.or_else(|| self.why_unlisted(server))
        });
        if let Some(failure) = failure {
            self.client.fail_to_start(id, &failure);
        } else if let Some(server) = silent.first() {
            let text = format!("{server} did not list what it offers in time");
            self.client.fail(id, code::INTERNAL, &text, Some("unavailable"));
        } else {
            let text = format!("nothing is called {name}");
            self.client.fail(id, code::INVALID_PARAMS, &text, None);
        }
    }

    fn keep_promises(&mut self) {
        for (method, before) in std::mem::take(&mut self.aggregations.promised) {
            let unknown = self.servers.now().unknown(method).len();
            if unknown < before {
                let kind = method.split('/').next().unwrap_or_default();
                let changed = format!("notifications/{kind}/list_changed");
                let line = message::notification(&changed, None);
                self.client.send(line, None, Priority::Droppable);
            }
            self.aggregations.promise(method, unknown);
        }
    }
}
