//! One client's connection: reads what it says, and brings it to the right server.
//!
//! Everything that has to be waited for is an errand, so that nothing that the client says next has to
//! wait for it. A call to a server that the client has a lease on needs none.

mod all;
mod alone;
mod reach;
mod requests;
mod subscriptions;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ostler::keeper::Scope;
use ostler::pipe::{Lines, ReadError};
use tokio::io::AsyncRead;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use self::all::Gather;
pub(crate) use self::all::{each, field_of};
use self::alone::Alone;
use self::reach::{Errand, Reach};
use crate::client::Client;
use crate::gateway::Gateway;
use crate::in_flight::InFlight;
use crate::menu::Menu;
use crate::message::{self, code};

/// The longest message of a client.
const LARGEST: usize = 64 << 20;
/// A client that reads nothing for so long while something waits for it has gone.
const STALLED: Duration = Duration::from_secs(30);
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
    /// Lists of all servers that are being put together.
    gathers: Vec<Gather>,
    /// Lists that were told without some servers, and without how many.
    promised: BTreeMap<&'static str, usize>,
    /// Why the last attempt to reach a server has failed.
    failures: HashMap<Arc<str>, String>,
}

/// Why a session ends.
enum End {
    /// The client has nothing more to say.
    Input,
    /// The client is not there any more, or does not listen.
    Gone,
}

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
            promised: BTreeMap::new(),
            failures: HashMap::new(),
        }
    }

    /// Serves the client until its input ends, it stops reading, or `gone` says so.
    pub(crate) async fn run(
        mut self,
        mut input: impl AsyncRead + Unpin,
        gone: impl Future<Output = ()>,
    ) {
        let client = Arc::clone(&self.client);
        let flushing = client.out.flush(|| STALLED);
        tokio::pin!(gone, flushing);
        let mut lines = Lines::default();
        let mut said = Vec::new();
        let end = loop {
            let look = self.look_after();
            tokio::select! {
                biased;
                () = &mut gone => break End::Gone,
                _ = &mut flushing => break End::Gone,
                Some(errand) = self.errands.join_next(), if !self.errands.is_empty() => {
                    self.run_errand(errand);
                }
                read = lines.read(&mut input, LARGEST, |line| said.push(Bytes::copy_from_slice(line))) => {
                    for line in said.drain(..) {
                        self.hear(&line);
                    }
                    match read {
                        Ok(()) => {}
                        Err(ReadError::End) => break End::Input,
                        Err(ReadError::LongLine(_) | ReadError::Failed(_)) => break End::Gone,
                    }
                }
                () = sleep(look.unwrap_or_default()), if look.is_some() => self.expire(),
            }
        };
        if matches!(end, End::Input) {
            // What it has asked it may still want to hear.
            let _ = timeout(LAST_ANSWERS, self.answer_the_rest()).await;
        }
        self.close();
    }

    async fn answer_the_rest(&mut self) {
        let client = Arc::clone(&self.client);
        while !client.pending().is_empty() || self.is_waiting() || !self.gathers.is_empty() {
            tokio::select! {
                Some(errand) = self.errands.join_next(), if !self.errands.is_empty() => {
                    self.run_errand(errand);
                }
                () = client.settled() => {}
                _ = client.out.flush(|| STALLED) => return,
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
