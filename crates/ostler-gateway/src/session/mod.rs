//! One client's connection: hears what it says, and brings it to the right server.
//!
//! Everything that has to be waited for is an errand, so that nothing that the client says next has to
//! wait for it. A call to a server that the client has a lease on needs none.

mod all;
mod alone;
mod claims;
mod desk;
mod gather;
mod held;
mod index;
mod limits;
mod merged;
mod parcel;
mod patience;
mod presence;
mod reach;
mod requests;
mod roots;
mod subscriptions;
mod turns;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use ostler::keeper::Scope;
use tokio::task::JoinSet;

pub(crate) use self::all::{each, field_of};
pub(crate) use self::claims::Claims;
pub(crate) use self::desk::Desk;
use self::desk::Vigil;
use self::gather::Gather;
use self::index::Index;
pub use self::limits::SessionLimits;
use self::parcel::Waiting;
pub use self::patience::{LIST_LIMITS, ListLimit};
pub(crate) use self::presence::Presence;
use self::reach::{Errand, Reach};
use crate::client::{Client, InFlight};
use crate::menu::Menu;
use crate::protocol::message::{self, code};
use crate::quota::Purse;
use crate::route::Route;
use crate::upstream::{Failure, Hub};

/// What a session has in common with others.
#[derive(Debug)]
pub(crate) struct Common {
    /// All instances, and what is known of servers.
    pub(crate) hub: Arc<Hub>,
    /// Which server a URI belongs to, for all clients of the same principal.
    pub(crate) claims: Arc<Mutex<Claims>>,
    pub(crate) limits: SessionLimits,
}

/// One client's connection.
pub(crate) struct Session {
    hub: Arc<Hub>,
    client: Arc<Client>,
    scope: Arc<Scope>,
    /// Counts the bytes of its requests that wait.
    purse: Arc<Purse>,
    /// Held for its drop, which tells operators that the client has disconnected.
    _presence: Presence,
    route: Route,
    menu: Arc<Menu>,
    reach: HashMap<Arc<str>, Reach>,
    errands: JoinSet<Errand>,
    /// Requests that no server has yet.
    waiting: Waiting,
    /// What waits for servers to say what they have, in its order.
    gathers: BTreeMap<u64, Gather>,
    /// The edition of the catalog that was looked at last.
    seen: u64,
    /// Lists that were told without some servers, and without how many.
    promised: BTreeMap<&'static str, usize>,
    /// What all servers have, for a client that sees them as one.
    index: Index,
    /// Which server a URI belongs to, for all clients of the same principal.
    claims: Arc<Mutex<Claims>>,
    limits: SessionLimits,
    /// Why the last attempt to reach a server has failed.
    failures: HashMap<Arc<str>, Failure>,
    /// What its task waits for at this moment.
    vigil: Vigil,
}

impl Session {
    pub(crate) fn new(
        Common { hub, claims, limits }: Common,
        client: Arc<Client>,
        scope: Scope,
        purse: Arc<Purse>,
        presence: Presence,
        route: Route,
        menu: Arc<Menu>,
    ) -> Self {
        Self {
            hub,
            client,
            scope: Arc::new(scope),
            purse,
            _presence: presence,
            route,
            menu,
            reach: HashMap::new(),
            errands: JoinSet::new(),
            waiting: Waiting::default(),
            gathers: BTreeMap::new(),
            seen: 0,
            promised: BTreeMap::new(),
            index: Index::default(),
            claims,
            limits,
            failures: HashMap::new(),
            vigil: Vigil::default(),
        }
    }

    fn run_errand(&mut self, errand: Result<Errand, tokio::task::JoinError>) {
        if let Ok(errand) = errand {
            self.done(errand);
            self.finish_gathers();
        }
    }

    /// Nobody waits for anything any more.
    fn close(mut self) {
        self.unsubscribe_all();
        let pending = self.client.pending().take_all();
        for call in pending {
            cancel(&self.client, &call, "the client has gone");
        }
        let asked = std::mem::take(&mut *self.client.asked());
        for asked in asked.into_values() {
            asked.fail("the client has gone");
        }
        self.client.out.close();
    }

    fn expire(&mut self) {
        let now = Instant::now();
        for (id, call) in self.client.pending().take_late(now) {
            // A server that says other things meanwhile is slow, not hung.
            if call.lease.heard() == call.heard {
                call.lease.suspect();
            }
            cancel(&self.client, &call, "it has taken too long");
            self.client.fail(&id, code::INTERNAL, "no answer in time", Some("timeout"));
        }
        for asked in self.client.take_late_asked(now) {
            asked.fail("no answer in time");
        }
    }
}

/// The version that was agreed upon.
fn version_of(client: &Client) -> &str {
    let hello = || client.hello().map(|hello| hello.version.as_str());
    client.version().or_else(hello).unwrap_or_default()
}

/// A call that nobody waits for any more; its server is told.
fn cancel(client: &Client, call: &InFlight, reason: &str) {
    call.lease.forget(call.call);
    call.settle(client);
    let params = format!(r#"{{"requestId":{},"reason":"{reason}"}}"#, call.call);
    let line = message::notification("notifications/cancelled", Some(params.as_bytes()));
    call.attachment.upstream.say(&line);
}
