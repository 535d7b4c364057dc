//! One client's connection: hears what it says, and brings it to the right server.
//!
//! Everything that has to be waited for is an errand, so that nothing that the client says next has to
//! wait for it. A call to a server that the client has a lease on needs none.

mod all;
mod alone;
mod desk;
mod gather;
mod reach;
mod requests;
mod subscriptions;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Instant;

use ostler::keeper::Scope;
use tokio::task::JoinSet;

pub(crate) use self::all::{each, field_of};
use self::alone::Alone;
pub(crate) use self::desk::Desk;
use self::desk::Vigil;
use self::gather::Gather;
use self::reach::{Errand, Reach};
use crate::agents::AgentSession;
use crate::client::Client;
use crate::gateway::Gateway;
use crate::in_flight::InFlight;
use crate::menu::Menu;
use crate::message::{self, code};
use crate::names::Names;

/// Which servers a client wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// One, with its names as they are.
    One(Arc<str>),
    /// All, with names that say which.
    All,
}

/// One client's connection.
pub(crate) struct Session {
    gateway: Arc<Gateway>,
    client: Arc<Client>,
    scope: Arc<Scope>,
    /// Held for its drop: a found agent is closed some time after its last session.
    _agent: Option<AgentSession>,
    route: Route,
    menu: Arc<Menu>,
    reach: HashMap<Arc<str>, Reach>,
    errands: JoinSet<Errand>,
    alone: Alone,
    /// What waits for servers to say what they have.
    gathers: Vec<Gather>,
    /// The edition of the catalog that was looked at last.
    seen: u64,
    /// Lists that were told without some servers, and without how many.
    promised: BTreeMap<&'static str, usize>,
    /// Names of things of all servers, by list, with the editions that they were made from.
    names: BTreeMap<&'static str, (Editions, Arc<Names>)>,
    /// Why the last attempt to reach a server has failed.
    failures: HashMap<Arc<str>, String>,
    /// What its task waits for at this moment.
    vigil: Vigil,
}

/// Of the catalog, and of the client's menu.
type Editions = (u64, u64);

impl Session {
    pub(crate) fn new(
        gateway: Arc<Gateway>,
        client: Arc<Client>,
        scope: Scope,
        agent: Option<AgentSession>,
        route: Route,
        menu: Arc<Menu>,
    ) -> Self {
        Self {
            gateway,
            client,
            scope: Arc::new(scope),
            _agent: agent,
            route,
            menu,
            reach: HashMap::new(),
            errands: JoinSet::new(),
            alone: Alone::default(),
            gathers: Vec::new(),
            seen: 0,
            promised: BTreeMap::new(),
            names: BTreeMap::new(),
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
        let pending = std::mem::take(&mut *self.client.pending());
        for call in pending.into_values() {
            cancel(&call, "the client has gone");
        }
        let asked = std::mem::take(&mut *self.client.asked());
        for asked in asked.into_values() {
            let error = message::error(&asked.id, code::INTERNAL, "the client has gone", None);
            asked.upstream.say(&error);
        }
        self.client.out.close();
    }

    fn expire(&mut self) {
        let now = Instant::now();
        for (id, call) in self.client.take_late(now) {
            // A server that says other things meanwhile is slow, not hung.
            if call.lease.heard() == call.heard {
                call.lease.suspect();
            }
            cancel(&call, "it has taken too long");
            self.client.fail(&id, code::INTERNAL, "no answer in time", Some("timeout"));
        }
        for asked in self.client.take_late_asked(now) {
            let error = message::error(&asked.id, code::INTERNAL, "no answer in time", None);
            asked.upstream.say(&error);
        }
    }
}

/// The version that was agreed upon.
fn version_of(client: &Client) -> &str {
    client.hello().map_or("", |hello| &hello.version)
}

/// A call that nobody waits for any more; its server is told.
fn cancel(call: &InFlight, reason: &str) {
    call.lease.forget(call.call);
    call.settle();
    let params = format!(r#"{{"requestId":{},"reason":"{reason}"}}"#, call.call);
    let line = message::notification("notifications/cancelled", Some(params.as_bytes()));
    call.attachment.upstream.say(&line);
}
