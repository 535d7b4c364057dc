//! State of one client, shared by its session and the tasks of servers.
//!
//! The session uses it to open and close calls. Tasks of servers use it without locking the session: they deliver
//! responses (`answered`), and notifications and requests of servers (`Downstream`). So each part has a lock of its
//! own, held for short synchronous steps.
//!
//! All output goes to `out`, the sink of the client's transport. Each message is charged to the principal's account
//! until the client has read it. `Memory` is the part of the state that survives when an HTTP client is detached and
//! comes back.

mod calls;
mod responses;
mod tasks;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use ostler::Frame;
use ostler::keeper::{Demand, Sharing, Use};
use tokio::sync::Notify;

use self::calls::Calls;
pub(crate) use self::calls::Location;
pub(crate) use self::responses::InFlight;
use self::tasks::TaskOwners;
use crate::mutex::lock;
use crate::protocol::initialize::Initialize;
use crate::protocol::roots::{RootList, Roots};
use crate::protocol::uris::Style;
use crate::quota::Account;
use crate::transport::{ClientSink, Destination, Priority};
use crate::upstream::{Downstream, SERVER_REQUEST_LIMIT, ServerRequest};

/// One client, as tasks of servers see it.
#[derive(Debug)]
pub(crate) struct Client {
    number: u64,
    pub(crate) out: Arc<dyn ClientSink>,
    /// Account of the client's principal, charged for unread messages.
    account: Arc<Account>,
    /// The client's handshake; empty before it.
    initialize: OnceLock<Initialize>,
    roots: Roots,
    /// Protocol version agreed between the client and its only server.
    version: OnceLock<String>,
    is_initialized: AtomicBool,
    /// Least severe log level that the client wants; 0 is all.
    log_level: AtomicU8,
    /// Servers that run the client's tasks.
    tasks: Mutex<TaskOwners>,
    calls: Mutex<Calls>,
    /// Notified when a server has answered a call.
    settled: Notify,
    /// Server requests without a response, by the ids under which the client got them.
    server_requests: Mutex<HashMap<u64, ServerRequest>>,
    last_server_request: AtomicU64,
    /// Resource subscriptions. Each of them keeps its instance in use.
    subscriptions: Mutex<HashMap<Topic, Subscription>>,
}

/// A client's subscription to a resource.
#[derive(Debug)]
pub(crate) struct Subscription {
    /// The client's form of the URI.
    pub(crate) style: Style,
    /// Keeps the instance in use; `None` without a lease, or if the instance was being retired.
    #[expect(dead_code, reason = "held until it is dropped")]
    pub(crate) in_use: Option<Use>,
}

/// A server, and the URI of one of its resources.
pub(crate) type Topic = (Arc<str>, String);

/// Client state that a later session can start from.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    initialize: Option<Initialize>,
    roots: Option<RootList>,
    version: Option<String>,
    is_initialized: bool,
    log_level: u8,
    /// Resources that the client subscribes to.
    pub(crate) topics: Vec<(Topic, Style)>,
}

impl Client {
    /// Makes a client from the state of an earlier session, which is empty for a new client.
    pub(crate) fn new(
        number: u64,
        out: Arc<dyn ClientSink>,
        account: Arc<Account>,
        memory: Memory,
    ) -> Self {
        let unheld = |(topic, style)| (topic, Subscription { style, in_use: None });
        Self {
            number,
            out,
            account,
            initialize: memory.initialize.map_or_else(OnceLock::new, OnceLock::from),
            roots: Roots::known(memory.roots),
            version: memory.version.map_or_else(OnceLock::new, OnceLock::from),
            is_initialized: AtomicBool::new(memory.is_initialized),
            tasks: Mutex::default(),
            log_level: AtomicU8::new(memory.log_level),
            calls: Mutex::default(),
            settled: Notify::new(),
            server_requests: Mutex::default(),
            last_server_request: AtomicU64::new(0),
            subscriptions: Mutex::new(memory.topics.into_iter().map(unheld).collect()),
        }
    }

    /// State that a later session of the client can start from.
    pub(crate) fn memory(&self) -> Memory {
        Memory {
            initialize: self.initialize().cloned(),
            roots: self.roots.told(),
            version: self.version.get().cloned(),
            is_initialized: self.is_initialized(),
            log_level: self.log_level(),
            topics: self.topics(|_| true),
        }
    }

    pub(crate) fn initialize(&self) -> Option<&Initialize> {
        self.initialize.get()
    }

    /// Profile that decides what a server lists to this client: its capabilities, unless all clients see the same.
    pub(crate) fn list_profile(&self, sharing: Sharing) -> Arc<str> {
        self.initialize()
            .map_or_else(|| Arc::from(""), |initialize| initialize.list_profile(sharing))
    }

    /// Profile that clients must have in common to share an instance.
    pub(crate) fn profile(&self, sharing: Sharing) -> Arc<str> {
        self.initialize().map_or_else(|| Arc::from(""), |initialize| initialize.profile(sharing))
    }

    /// Roots of the client, as far as they are known.
    pub(crate) fn roots(&self) -> &Roots {
        &self.roots
    }

    /// Whether the client has the roots capability.
    pub(crate) fn has_roots(&self) -> bool {
        self.initialize().is_some_and(Initialize::has_roots)
    }

    /// Asks the client for its roots, with a time limit for the response.
    pub(crate) fn ask_roots(&self, limit: Duration) {
        let number = self.next_server_request_id();
        self.roots.expect(number, limit);
        let line = format!(r#"{{"jsonrpc":"2.0","id":{number},"method":"roots/list"}}"#) + "\n";
        self.send(line.into(), None, Priority::Required);
    }

    /// The client's demand for an instance that it shares with its agent, and the roots that the demand is based on.
    /// Waits for the roots.
    pub(crate) async fn demand_in_agent(&self) -> (Demand, Option<RootList>) {
        let Some(initialize) = self.initialize().filter(|initialize| initialize.has_roots()) else {
            return (Demand::profile(self.profile(Sharing::Agent)), None);
        };
        let roots = self.roots.settled().await;
        let demand = roots.as_ref().map(|roots| initialize.demand_with(roots));
        (demand.unwrap_or_else(|| initialize.demand_alone()), roots)
    }

    /// Stores the client's handshake. Returns false if there was one before.
    pub(crate) fn introduce(&self, initialize: Initialize) -> bool {
        self.initialize.set(initialize).is_ok()
    }

    /// Protocol version agreed between the client and its server, if it has only one.
    pub(crate) fn version(&self) -> Option<&str> {
        self.version.get().map(String::as_str)
    }

    /// Stores the agreed protocol version, unless there is one.
    pub(crate) fn agree_on(&self, version: &str) {
        let _ = self.version.set(version.to_owned());
    }

    pub(crate) fn set_initialized(&self) {
        self.is_initialized.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_initialized(&self) -> bool {
        self.is_initialized.load(Ordering::Relaxed)
    }

    pub(crate) fn set_log_level(&self, level: u8) {
        self.log_level.store(level, Ordering::Relaxed);
    }

    /// Waits until a server has answered a call.
    pub(crate) async fn settled(&self) {
        self.settled.notified().await;
    }

    /// Requests without a response.
    pub(crate) fn calls(&self) -> MutexGuard<'_, Calls> {
        lock(&self.calls)
    }

    /// Servers that run the client's tasks.
    pub(crate) fn tasks(&self) -> MutexGuard<'_, TaskOwners> {
        lock(&self.tasks)
    }

    /// Shortest time limit of calls in flight and server requests; the session derives the interval of its deadline
    /// checks from it.
    pub(crate) fn shortest_limit(&self) -> Option<Duration> {
        let calls = self.calls().shortest_limit();
        let server_requests = (!self.server_requests().is_empty()).then_some(SERVER_REQUEST_LIMIT);
        calls.into_iter().chain(server_requests).min()
    }

    /// Removes the server requests that the client has not answered in time.
    pub(crate) fn take_late_server_requests(&self, now: Instant) -> Vec<ServerRequest> {
        let late = |_: &u64, request: &mut ServerRequest| request.until <= now;
        self.server_requests().extract_if(late).map(|(_, request)| request).collect()
    }

    /// Id of the next request to the client.
    fn next_server_request_id(&self) -> u64 {
        self.last_server_request.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Removes the server request that this response of the client belongs to.
    pub(crate) fn take_server_request(&self, answer: &Frame) -> Option<ServerRequest> {
        let number = std::str::from_utf8(answer.id()).ok()?.parse().ok()?;
        self.server_requests().remove(&number)
    }

    /// Resources that the client subscribes to at servers that `of` accepts.
    pub(crate) fn topics(&self, of: impl Fn(&str) -> bool) -> Vec<(Topic, Style)> {
        let subscriptions = self.subscriptions();
        let found = subscriptions.iter().filter(|((server, _), _)| of(server));
        found.map(|(topic, one)| (topic.clone(), one.style.clone())).collect()
    }

    pub(crate) fn subscriptions(&self) -> MutexGuard<'_, HashMap<Topic, Subscription>> {
        lock(&self.subscriptions)
    }

    pub(crate) fn server_requests(&self) -> MutexGuard<'_, HashMap<u64, ServerRequest>> {
        lock(&self.server_requests)
    }
}

impl Downstream for Client {
    fn number(&self) -> u64 {
        self.number
    }

    fn capabilities(&self) -> Bytes {
        self.initialize().map(|initialize| initialize.capabilities.clone()).unwrap_or_default()
    }

    fn log_level(&self) -> u8 {
        self.log_level.load(Ordering::Relaxed)
    }

    fn send(&self, line: Bytes, related: Option<&[u8]>, priority: Priority) {
        let Some(line) = self.account.hold(line) else { return };
        let stream = related.and_then(|id| self.calls().stream_of(id));
        let to = stream.map_or(Destination::Session, |stream| Destination::Related { stream });
        self.out.send(line, to, priority);
    }

    fn expect_answer(&self, request: ServerRequest) -> u64 {
        let number = self.next_server_request_id();
        self.server_requests().insert(number, request);
        number
    }

    fn withdraw_request(&self, number: u64) -> bool {
        self.server_requests().remove(&number).is_some()
    }

    fn prolong(&self, id: &[u8]) {
        self.calls().prolong(id);
    }
}
