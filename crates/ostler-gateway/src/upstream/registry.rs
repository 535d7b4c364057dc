//! All ready instances, and the handshake that makes them ready.
//!
//! The keeper calls `Upstreams` as `Handshake`, to initialize a new instance, and as `Listener`, with each server
//! message that is not a response. An instance is registered before it gets `notifications/initialized`, so that its
//! first requests are not lost. Then all of its lists count as stale: `Router::tend` takes them from `stale_lists`,
//! fetches them and updates the catalog. `list_changed` notifications take the same path. A listing (`list_all`)
//! holds a lease until all lists of its instance were fetched.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use ostler::keeper::{Greeting, Handshake, Lease, Listener, Talk};
use ostler::{Frame, Kind};
use tokio::sync::Notify;
use tokio::time::timeout;

use super::listing::{Begun, Listings, StartFailure};
use super::{Change, Upstream};
use crate::catalog::{Catalog, Name};
use crate::mutex::lock;
use crate::protocol::initialize;
use crate::protocol::lists::LIST_LIMIT;
use crate::protocol::message;
use crate::protocol::version;

/// Time limit for the response to the handshake; the server's own start limit is usually shorter.
const HANDSHAKE_LIMIT: Duration = Duration::from_hours(1);

/// Time limit for all lists of a server, which are fetched concurrently.
const ALL_LISTS: Duration = LIST_LIMIT.saturating_add(Duration::from_secs(5));

/// All ready instances, and the catalog.
#[derive(Debug)]
pub(crate) struct Upstreams {
    pub(crate) catalog: Catalog,
    pub(crate) listings: Listings,
    ready: Mutex<ReadyInstances>,
    /// Lists to fetch again: the number of the instance, and the list method.
    stale: Mutex<BTreeSet<(u64, &'static str)>>,
    /// Wakes `stale_lists`.
    changed: Notify,
}

/// Ready instances.
#[derive(Debug, Default)]
struct ReadyInstances {
    /// Instances by their numbers.
    all: HashMap<u64, Arc<Upstream>>,
    /// Numbers of the instances that belong to one session, by that session and the id of the server.
    of_sessions: HashMap<(u64, Arc<str>), u64>,
}

impl ReadyInstances {
    fn insert(&mut self, number: u64, upstream: Arc<Upstream>) {
        if let Some(session) = upstream.session() {
            self.of_sessions.insert((session, Arc::clone(&upstream.talk().key().server)), number);
        }
        self.all.insert(number, upstream);
    }

    fn remove(&mut self, number: u64) -> Option<Arc<Upstream>> {
        let upstream = self.all.remove(&number)?;
        if let Some(session) = upstream.session() {
            let key = (session, Arc::clone(&upstream.talk().key().server));
            // A successor may be registered under the same key already.
            if self.of_sessions.get(&key) == Some(&number) {
                self.of_sessions.remove(&key);
            }
        }
        Some(upstream)
    }

    fn of_session(&self, session: u64, server: &Arc<str>) -> Option<&Arc<Upstream>> {
        self.all.get(self.of_sessions.get(&(session, Arc::clone(server)))?)
    }
}

impl Upstreams {
    pub(crate) fn new(catalog: Catalog) -> Self {
        let (ready, stale) = (Mutex::default(), Mutex::default());
        let (listings, changed) = (Listings::default(), Notify::new());
        Self { catalog, listings, ready, stale, changed }
    }

    pub(crate) fn upstream(&self, number: u64) -> Option<Arc<Upstream>> {
        lock(&self.ready).all.get(&number).cloned()
    }

    /// List of a session's own instance, for that session only.
    pub(crate) fn own_list(&self, server: &Arc<str>, session: u64, method: &str) -> Option<Bytes> {
        let upstream = lock(&self.ready).of_session(session, server).cloned();
        upstream?.own_list(method)
    }

    /// Forgets an instance that has ended.
    pub(crate) fn forget(&self, number: u64) {
        let upstream = lock(&self.ready).remove(number);
        // Its session's snapshot has lists that went with it.
        if upstream.is_some_and(|upstream| upstream.has_own_lists()) {
            self.catalog.announce();
        }
    }

    /// Waits until lists are stale, and then for `rest`, so that several changes are fetched once.
    pub(crate) async fn stale_lists(&self, rest: Duration) -> BTreeSet<(u64, &'static str)> {
        // Entries stay in `stale` if this future is dropped while it waits.
        while lock(&self.stale).is_empty() {
            self.changed.notified().await;
        }
        tokio::time::sleep(rest).await;
        std::mem::take(&mut lock(&self.stale))
    }

    /// Makes all instances of this server serve one calling session at a time. The catalog remembers it for later
    /// ones.
    fn serve_one_caller(&self, upstream: &Upstream) {
        let subjects = upstream.subjects();
        for subject in &subjects {
            self.catalog.set_one_caller(subject);
        }
        let all: Vec<Arc<Upstream>> = lock(&self.ready).all.values().cloned().collect();
        for one in all.iter().filter(|one| !one.subjects().is_disjoint(&subjects)) {
            one.serve_one_caller();
        }
    }

    fn list_again(&self, number: u64, method: &'static str) {
        lock(&self.stale).insert((number, method));
        self.changed.notify_one();
    }

    async fn initialize(&self, talk: &Talk) -> Result<(), String> {
        let frame = Frame::parse(initialize::to_server(&talk.key().profile))
            .map_err(|error| error.to_string())?;
        let answer = talk.call(&frame, HANDSHAKE_LIMIT).await.map_err(|error| error.to_string())?;
        let result = answer.bytes().slice(answer.body_edges());
        let version = message::find(&result, 0..result.len(), &["protocolVersion"])
            .and_then(|edges| serde_json::from_slice::<String>(&result[edges]).ok());
        match version {
            None => return Err(refusal(&answer)),
            Some(version) if !version::is_known(&version) => {
                return Err(format!("it speaks the unknown protocol version {version:.40}"));
            }
            Some(_) => {}
        }
        let initialized = message::notification("notifications/initialized", None);
        let initialized = Frame::parse(initialized.slice(..initialized.len() - 1));
        let initialized = initialized.map_err(|error| error.to_string())?;
        // Registered before the server may send requests, so that none is lost.
        let upstream = Arc::new(Upstream::new(talk.clone(), result));
        let lists = upstream.lists();
        lock(&self.ready).insert(talk.number(), upstream);
        talk.notify(&initialized).map_err(|error| error.to_string())?;
        for method in lists {
            self.list_again(talk.number(), method);
        }
        Ok(())
    }
}

impl Upstreams {
    /// Carries out a listing: waits until the lists of its instance were fetched, and releases the lease.
    pub(crate) async fn list_all(&self, begun: Begun) {
        let Begun { name, lease } = begun;
        let lease = lease.await;
        let result = match &lease {
            Ok(lease) => self.hear_lists(lease, &name).await,
            Err(error) => Err(error.into()),
        };
        self.listings.finish(&name, result);
        self.catalog.announce();
    }

    async fn hear_lists(&self, lease: &Lease, name: &Name) -> Result<(), StartFailure> {
        let unknown = || {
            let text = "it ended before it had listed what it offers";
            StartFailure::new("upstream_failed", text.into())
        };
        let ended = || lease.ending().map_or_else(unknown, |ending| StartFailure::ended(&ending));
        let upstream = self.upstream(lease.instance()).ok_or_else(ended)?;
        upstream.describe_as(name, &self.catalog);
        tokio::select! {
            // A server that exits after its last list has said all that is needed.
            biased;
            // A list that does not come in time is fetched again when a client needs it.
            _ = timeout(ALL_LISTS, upstream.listed()) => Ok(()),
            () = lease.left() => Err(ended()),
        }
    }
}

impl Handshake for Upstreams {
    fn greet<'a>(&'a self, server: &'a Talk) -> Greeting<'a> {
        Box::pin(self.initialize(server))
    }
}

impl Listener for Upstreams {
    fn hear(&self, from: &Talk, message: Frame) {
        match self.upstream(from.number()) {
            Some(upstream) => match upstream.hear(&message) {
                Some(Change::List(method)) => self.list_again(from.number(), method),
                Some(Change::NoOwner) => {
                    self.serve_one_caller(&upstream);
                    upstream.refuse_contended(&message);
                }
                None => {}
            },
            // Before the handshake is done, only `ping` can be answered.
            None if message.kind() == Kind::Request && message.method() == b"ping" => {
                let answer = message::answer(message.id(), b"{}");
                if let Ok(answer) = Frame::parse(answer.slice(..answer.len() - 1)) {
                    let _ = from.notify(&answer);
                }
            }
            None => {}
        }
    }
}

/// Why the response to `initialize` is no handshake: the server's error, or the start of the response.
fn refusal(answer: &Frame) -> String {
    let shorten =
        |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).into_owned();
    let other = || format!("its answer has no protocol version: {}", shorten(answer.body()));
    message::error_text(answer).unwrap_or_else(other)
}
