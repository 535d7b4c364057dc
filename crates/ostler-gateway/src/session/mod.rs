//! One client's connection: reads what it says, and brings it to the right server.
//!
//! Everything that has to be waited for is an errand, so that nothing that the client says next has to
//! wait for it. A call to a server that the client has a lease on needs none.

mod all;
mod alone;
mod gather;
mod reach;
mod requests;
mod subscriptions;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ostler::keeper::Scope;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

pub(crate) use self::all::{each, field_of};
use self::alone::Alone;
use self::gather::{Gather, News};
use self::reach::{Errand, Reach};
use crate::client::{Client, Memory};
use crate::gateway::Gateway;
use crate::in_flight::InFlight;
use crate::menu::Menu;
use crate::message::{self, code};
use crate::names::Names;
use crate::transport::{End, Source};

/// For answers to calls that were read before the client's input ended.
const LAST_ANSWERS: Duration = Duration::from_millis(1500);
/// Between two looks at calls that may have taken too long, as a part of what they may take.
const LOOKS: u32 = 16;
const SHORTEST_LOOK: Duration = Duration::from_millis(20);

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
}

/// Of the catalog, and of the client's menu.
type Editions = (u64, u64);

impl Session {
    pub(crate) fn new(
        gateway: Arc<Gateway>,
        client: Arc<Client>,
        scope: Scope,
        route: Route,
        menu: Arc<Menu>,
    ) -> Self {
        Self {
            gateway,
            client,
            scope: Arc::new(scope),
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
        }
    }

    /// Serves the client until it has nothing more to say, or `gone` says so.
    /// Returns what should be known of it if it comes back.
    pub(crate) async fn run(
        mut self,
        mut source: impl Source,
        gone: impl Future<Output = ()>,
    ) -> Memory {
        let gateway = Arc::clone(&self.gateway);
        self.take_up();
        tokio::pin!(gone);
        let mut said = Vec::new();
        let end = loop {
            let (look, news) = (self.look_after(), self.news_wanted());
            tokio::select! {
                biased;
                () = &mut gone => break End::Gone,
                Some(errand) = self.errands.join_next(), if !self.errands.is_empty() => {
                    self.run_errand(errand);
                }
                heard = source.hear(|message| said.push(message)) => {
                    for message in said.drain(..) {
                        self.hear(message);
                    }
                    if let Err(end) = heard {
                        break end;
                    }
                }
                () = sleep(look.unwrap_or_default()), if look.is_some() => self.expire(),
                Some(()) = told(news, &gateway) => self.heed_news(),
            }
        };
        if end == End::Input {
            // What it has asked it may still want to hear.
            let answered = timeout(LAST_ANSWERS, self.answer_the_rest());
            tokio::select! {
                _ = answered => {}
                () = &mut gone => {}
            }
        }
        let memory = self.client.memory();
        self.close();
        memory
    }

    async fn answer_the_rest(&mut self) {
        let (client, gateway) = (Arc::clone(&self.client), Arc::clone(&self.gateway));
        while !client.pending().is_empty() || self.is_waiting() || !self.gathers.is_empty() {
            let news = self.news_wanted();
            tokio::select! {
                Some(errand) = self.errands.join_next(), if !self.errands.is_empty() => {
                    self.run_errand(errand);
                }
                () = client.settled() => {}
                Some(()) = told(news, &gateway) => self.heed_news(),
            }
        }
        client.out.drained().await;
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

    /// How long until a call may have taken too long, if there is any.
    fn look_after(&self) -> Option<Duration> {
        let shortest = self.client.shortest_limit()?;
        Some((shortest / LOOKS).max(SHORTEST_LOOK))
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

/// Waits for news, if any are wanted.
async fn told(news: Option<News>, gateway: &Gateway) -> Option<()> {
    news?.come(&gateway.hub().catalog).await;
    Some(())
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
