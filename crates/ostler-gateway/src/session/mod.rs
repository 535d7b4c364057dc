//! Router session of one client: receives its messages and forwards them to the right server.
//!
//! `receive` reads each message and `servers` decides where it goes, from an immutable `snapshot` of what the client
//! may use and the catalog knows. The session reaches each server through a [`Link`], a state machine that `links` carries
//! out; `aggregate` holds the requests that wait for lists of several servers.
//!
//! A session never awaits: everything that takes time (a lease, a turn at an instance, the end of an instance) runs as
//! a task in `Session::tasks` and comes back as a `TaskOutput`. So one slow request does not delay the next. A request
//! to an instance that the session has a lease on, and that is free, needs no task. A `SessionHandle` owns the session
//! and drives it.

mod aggregate;
mod handle;
mod initialize;
mod leased;
mod limits;
mod link;
mod links;
mod list_limits;
mod listings;
mod merged_list;
mod per_call;
mod presence;
mod receive;
mod renew;
mod request;
mod roots;
mod servers;
mod snapshot;
mod subscriptions;
mod turns;
mod uri_owners;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use ostler::keeper::Scope;
use tokio::task::JoinSet;

use self::aggregate::Aggregations;
pub(crate) use self::handle::SessionHandle;
use self::handle::WaitSet;
pub use self::limits::SessionLimits;
use self::links::{Link, TaskOutput};
pub use self::list_limits::{LIST_LIMITS, ListLimit};
pub(crate) use self::presence::Presence;
use self::servers::Servers;
pub(crate) use self::uri_owners::UriOwners;
use crate::client::{Client, InFlight};
use crate::protocol::message::{self, code};
use crate::quota::ByteBudget;
use crate::route::Route;
use crate::server_set::ServerSet;
use crate::upstream::Upstreams;

/// Parts that a session shares with others.
#[derive(Debug)]
pub(crate) struct SessionContext {
    /// All instances, and the catalog.
    pub(crate) upstreams: Arc<Upstreams>,
    /// URI owners, shared by all clients of the principal.
    pub(crate) uri_owners: Arc<Mutex<UriOwners>>,
    pub(crate) limits: SessionLimits,
}

/// Router session of one client.
pub(crate) struct Session {
    upstreams: Arc<Upstreams>,
    client: Arc<Client>,
    scope: Arc<Scope>,
    /// Budget for the bytes of requests that wait.
    budget: Arc<ByteBudget>,
    /// Held for its drop, which logs that the client has disconnected.
    _presence: Presence,
    /// What the client may use, and what is known about it.
    servers: Servers,
    /// Access to each server that the client has used, by name.
    links: BTreeMap<Arc<str>, Link>,
    /// Tasks that wait on behalf of the session.
    tasks: JoinSet<TaskOutput>,
    /// Last number given to a queued request or an aggregation.
    last_number: u64,
    /// Requests that wait for lists of servers.
    aggregations: Aggregations,
    limits: SessionLimits,
    /// Events that the session's task waits for at the moment.
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
        let servers = Servers::new(
            route,
            server_set,
            Arc::clone(&upstreams),
            Arc::clone(&client),
            scope.who().clone(),
            uri_owners,
        );
        Self {
            upstreams,
            client,
            scope: Arc::new(scope),
            budget,
            _presence: presence,
            servers,
            links: BTreeMap::new(),
            tasks: JoinSet::new(),
            last_number: 0,
            aggregations: Aggregations::default(),
            limits,
            wait_set: WaitSet::default(),
        }
    }

    fn finish_task(&mut self, output: Result<TaskOutput, tokio::task::JoinError>) {
        if let Ok(output) = output {
            self.done(output);
            self.finish_aggregations();
        }
    }

    /// Closes the session: cancels its calls at their servers, fails open requests of servers and closes the sink.
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
        for request in server_requests.into_values() {
            request.fail("the client has left");
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
            // A server that has sent other messages meanwhile is slow, not hung.
            if call.lease.heard() == call.heard {
                call.lease.suspect();
            }
            cancel(&self.client, &call, "it has taken too long");
            self.client.fail(&id, code::INTERNAL, "no answer in time", Some("timeout"));
        }
        for request in self.client.take_late_server_requests(now) {
            request.fail("no answer in time");
        }
    }
}

/// Protocol version agreed with the client, or else the one of its handshake.
fn version_of(client: &Client) -> &str {
    let initialize = || client.initialize().map(|initialize| initialize.version.as_str());
    client.version().or_else(initialize).unwrap_or_default()
}

/// Drops a call in flight, and sends its server `notifications/cancelled`.
fn cancel(client: &Client, call: &InFlight, reason: &str) {
    call.lease.forget(call.call);
    call.settle(client);
    let params = format!(r#"{{"requestId":{},"reason":"{reason}"}}"#, call.call);
    let line = message::notification("notifications/cancelled", Some(params.as_bytes()));
    call.attachment.upstream.say(&line);
}
