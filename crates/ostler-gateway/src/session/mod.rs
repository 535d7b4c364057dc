//! One client's connection: hears what it says, and brings it to the right server.
//!
//! Everything that has to be waited for is an errand, so that nothing that the client says next has to
//! wait for it. A call to a server that the client has a lease on needs none.

mod aggregate;
mod all;
mod handle;
mod index;
mod leased;
mod limits;
mod links;
mod list_limits;
mod merged;
mod parcel;
mod per_call;
mod presence;
mod requests;
mod roots;
mod subscriptions;
mod turns;
mod uri_owners;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use ostler::keeper::Scope;
use tokio::task::JoinSet;

use self::aggregate::Aggregation;
pub(crate) use self::all::{each, field_of};
pub(crate) use self::handle::SessionHandle;
use self::handle::WaitSet;
use self::index::Index;
pub use self::limits::SessionLimits;
use self::links::{Link, TaskOutput};
pub use self::list_limits::{LIST_LIMITS, ListLimit};
pub(crate) use self::presence::Presence;
pub(crate) use self::uri_owners::UriOwners;
use crate::client::{Client, InFlight};
use crate::protocol::message::{self, code};
use crate::quota::ByteBudget;
use crate::route::Route;
use crate::server_set::ServerSet;
use crate::upstream::{StartFailure, Upstreams};

/// What a session has in common with others.
#[derive(Debug)]
pub(crate) struct SessionContext {
    /// All instances, and what is known of servers.
    pub(crate) upstreams: Arc<Upstreams>,
    /// Which server a URI belongs to, for all clients of the same principal.
    pub(crate) uri_owners: Arc<Mutex<UriOwners>>,
    pub(crate) limits: SessionLimits,
}

/// One client's connection.
pub(crate) struct Session {
    upstreams: Arc<Upstreams>,
    client: Arc<Client>,
    scope: Arc<Scope>,
    /// Counts the bytes of its requests that wait.
    budget: Arc<ByteBudget>,
    /// Held for its drop, which tells operators that the client has disconnected.
    _presence: Presence,
    route: Route,
    server_set: Arc<ServerSet>,
    links: HashMap<Arc<str>, Link>,
    tasks: JoinSet<TaskOutput>,
    /// The last number that was given to a queued request or an aggregation.
    last_number: u64,
    /// What waits for servers to say what they have, in its order.
    aggregations: BTreeMap<u64, Aggregation>,
    /// The edition of the catalog that was looked at last.
    seen: u64,
    /// Lists that were told without some servers, and without how many.
    promised: BTreeMap<&'static str, usize>,
    /// What all servers have, for a client that sees them as one.
    index: Index,
    /// Which server a URI belongs to, for all clients of the same principal.
    uri_owners: Arc<Mutex<UriOwners>>,
    limits: SessionLimits,
    /// Why the last attempt to reach a server has failed.
    failures: HashMap<Arc<str>, StartFailure>,
    /// What its task waits for at this moment.
    wait_set: WaitSet,
}

impl Session {
    pub(crate) fn new(
        SessionContext { upstreams, uri_owners, limits }: SessionContext,
        client: Arc<Client>,
        scope: Scope,
        budget: Arc<ByteBudget>,
        presence: Presence,
        route: Route,
        server_set: Arc<ServerSet>,
    ) -> Self {
        Self {
            upstreams,
            client,
            scope: Arc::new(scope),
            budget,
            _presence: presence,
            route,
            server_set,
            links: HashMap::new(),
            tasks: JoinSet::new(),
            last_number: 0,
            aggregations: BTreeMap::new(),
            seen: 0,
            promised: BTreeMap::new(),
            index: Index::default(),
            uri_owners,
            limits,
            failures: HashMap::new(),
            wait_set: WaitSet::default(),
        }
    }

    fn finish_task(&mut self, output: Result<TaskOutput, tokio::task::JoinError>) {
        if let Ok(output) = output {
            self.done(output);
            self.finish_aggregations();
        }
    }

    /// Nobody waits for anything any more.
    fn close(mut self) {
        self.unsubscribe_all();
        let open = self.client.calls().close_all();
        let mut unanswered = Vec::new();
        for mut call in open {
            unanswered.push(call.stream());
            if let Some(call) = call.take_back() {
                cancel(&self.client, &call, "the client has left");
            }
        }
        let server_requests = std::mem::take(&mut *self.client.server_requests());
        for server_requests in server_requests.into_values() {
            server_requests.fail("the client has left");
        }
        self.client.out.close(&unanswered);
    }

    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    fn expire(&mut self) {
        let now = Instant::now();
        let late = self.client.calls().take_late(now);
        for (id, call) in late {
            // A server that says other things meanwhile is slow, not hung.
            if call.lease.heard() == call.heard {
                call.lease.suspect();
            }
            cancel(&self.client, &call, "it has taken too long");
            self.client.fail(&id, code::INTERNAL, "no answer in time", Some("timeout"));
        }
        for server_requests in self.client.take_late_server_requests(now) {
            server_requests.fail("no answer in time");
        }
    }
}

/// The version that was agreed upon.
fn version_of(client: &Client) -> &str {
    let initialize = || client.initialize().map(|initialize| initialize.version.as_str());
    client.version().or_else(initialize).unwrap_or_default()
}

/// A call that nobody waits for any more; its server is told.
fn cancel(client: &Client, call: &InFlight, reason: &str) {
    call.lease.forget(call.call);
    call.settle(client);
    let params = format!(r#"{{"requestId":{},"reason":"{reason}"}}"#, call.call);
    let line = message::notification("notifications/cancelled", Some(params.as_bytes()));
    call.attachment.upstream.say(&line);
}
