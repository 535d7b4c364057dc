//! MCP session of an HTTP client.
//!
//! HTTP has no connection that lasts as long as the session, so the gateway derives whether the client is present: it
//! is while the gateway answers one of its requests or has an event stream open to it. A `PresenceGuard` marks each
//! of these.
//!
//! The session is *attached* while it has a router session. Once the client has been absent for the detach timeout,
//! the router session closes and releases its leases: the session is *detached*. It keeps its id and a `Memory` of
//! the handshake. The next message is queued, opens a router session from that memory, and is delivered to it. A
//! session ends when its client deletes it, its token is revoked, the gateway closes, or the client has been absent
//! for `Limits::expiry`.

use std::collections::VecDeque;
use std::mem;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::time::{sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::limits::{INBOX, Limits, REQUESTS};
use super::outbound::Outbound;
use super::refusal::Refusal;
use crate::client::Memory;
use crate::gateway::{Credential, Gateway};
use crate::mutex::lock;
use crate::quota::{Account, ByteBudget};
use crate::router::SessionSpec;
use crate::session::SessionHandle;
use crate::transport::{ClientMessage, NoSource, ReturnAddress};

/// Shortest interval between two checks of the client's presence.
const SHORTEST_LOOK: Duration = Duration::from_millis(10);

/// Session of one HTTP client, from its `initialize` request to its end.
#[derive(Debug)]
pub(super) struct McpSession {
    pub(super) id: u128,
    pub(super) credential: Arc<Credential>,
    /// Counts the bytes of requests that wait.
    pub(super) budget: Arc<ByteBudget>,
    /// The only server of the session; `None` for all servers.
    pub(super) server: Option<String>,
    /// Negotiated protocol version.
    pub(super) version: String,
    pub(super) outbound: Arc<Outbound>,
    pub(super) limits: Limits,
    /// Event stream for all messages, of a client of the HTTP+SSE transport.
    pub(super) only: OnceLock<u64>,
    routing: Mutex<Routing>,
    /// Signals that a message was queued while the session is detached.
    inbound_ready: Notify,
    presence: Mutex<Presence>,
    /// Cancelled when the client deletes the session, when its token is revoked, or when the gateway closes.
    end: CancellationToken,
}

/// Parameters of a session that is being opened.
#[derive(Debug)]
pub(super) struct NewSession {
    pub(super) credential: Arc<Credential>,
    pub(super) budget: Arc<ByteBudget>,
    pub(super) server: Option<String>,
    pub(super) version: String,
    pub(super) spec: SessionSpec,
}

/// Destination of the client's messages.
#[derive(Debug)]
enum Routing {
    /// The session has no router session; these messages wait for the next one.
    Detached(VecDeque<Admitted>),
    Attached(Arc<SessionHandle>),
    /// The session has ended and accepts no messages.
    Closed,
}

#[derive(Debug)]
struct Presence {
    /// Number of presence guards: requests being answered and event streams being read.
    count: usize,
    /// When the last guard was dropped, or when the session was opened.
    since: Instant,
}

/// Guard that marks the client as present; the detach timer runs only while no guard is held.
#[derive(Debug)]
pub(super) struct PresenceGuard(Arc<McpSession>);

/// A message of the client on its way to the router session.
#[derive(Debug, Default)]
pub(super) struct Inbound {
    /// `None` only attaches the session, for a client that opens an event stream.
    pub(super) message: Option<ClientMessage>,
    /// Number of requests in the message.
    pub(super) requests: usize,
    /// The event stream for their responses.
    pub(super) stream: u64,
}

/// An [`Inbound`] whose requests are counted in the account of the principal.
#[derive(Debug)]
struct Admitted {
    message: Option<ClientMessage>,
    address: ReturnAddress,
}

impl McpSession {
    /// Creates a detached session. `Sessions` has to register and run it.
    pub(super) fn new(id: u128, new_session: NewSession, limits: Limits) -> Self {
        Self {
            id,
            end: new_session.credential.revoked().child_token(),
            credential: new_session.credential,
            budget: new_session.budget,
            server: new_session.server,
            version: new_session.version,
            outbound: Arc::default(),
            limits,
            only: OnceLock::new(),
            routing: Mutex::new(Routing::Detached(VecDeque::new())),
            inbound_ready: Notify::new(),
            presence: Mutex::new(Presence { count: 0, since: Instant::now() }),
        }
    }

    /// Marks the client as present until the guard is dropped.
    pub(super) fn presence_guard(self: &Arc<Self>) -> PresenceGuard {
        lock(&self.presence).count += 1;
        PresenceGuard(Arc::clone(self))
    }

    /// Quotas of the session's principal.
    pub(super) fn account(&self) -> &Arc<Account> {
        self.budget.account()
    }

    /// When the client was last present; `None` if it is present.
    pub(super) fn away_since(&self) -> Option<Instant> {
        let (is_present, since) = self.presence();
        (!is_present).then_some(since)
    }

    /// Whether the client is present, and when the last guard was dropped.
    pub(super) fn presence(&self) -> (bool, Instant) {
        let presence = lock(&self.presence);
        (presence.count > 0, presence.since)
    }

    /// Hands a message to the router session, or queues it until there is one.
    pub(super) fn receive(&self, inbound: Inbound) -> Result<(), Refusal> {
        let Inbound { message, requests, stream } = inbound;
        let account = self.account();
        let too_many = || Refusal::Requests(account.most_requests());
        let permits = account.begin_requests(requests).ok_or_else(too_many)?;
        let address = ReturnAddress { stream, permits: Some(permits) };
        // Locked until the session has received the message, so that messages are received in the order they came in.
        match &mut *lock(&self.routing) {
            Routing::Attached(handle) if handle.open_calls() + requests > REQUESTS => {
                return Err(Refusal::Busy);
            }
            Routing::Attached(handle) => Admitted { message, address }.hand_to(handle),
            Routing::Detached(queue) if queue.len() >= INBOX => return Err(Refusal::Busy),
            Routing::Detached(queue) => {
                queue.push_back(Admitted { message, address });
                self.inbound_ready.notify_one();
            }
            Routing::Closed => return Err(Refusal::UnknownSession),
        }
        Ok(())
    }

    /// Ends the session and its event streams.
    pub(super) fn end(&self) {
        self.outbound.end();
        self.end.cancel();
    }

    /// Runs the session to its end: opens a router session for each period in which the client is present.
    pub(super) async fn run(&self, spec: SessionSpec, gateway: &Gateway) {
        let mut memory = Memory::default();
        while self.wait_for_request().await {
            let (out, budget) = (Arc::clone(&self.outbound), Arc::clone(&self.budget));
            let handle = Arc::new(gateway.router().open_session(spec.clone(), memory, out, budget));
            self.attach(&handle);
            let detach = gateway.detach_timeout().unwrap_or(self.limits.detach);
            let gone = async {
                tokio::select! {
                    () = self.end.cancelled() => self.outbound.end(),
                    () = self.wait_detached(detach) => {}
                }
            };
            handle.serve(NoSource, gone).await;
            *lock(&self.routing) = Routing::Detached(VecDeque::new());
            memory = handle.close();
        }
        *lock(&self.routing) = Routing::Closed;
        self.outbound.end();
    }

    /// Waits until a message is queued. False if the session ends or expires before.
    async fn wait_for_request(&self) -> bool {
        let inbound_ready = async {
            // The notification may be an old one, for messages that were delivered already.
            while !self.has_inbound() {
                self.inbound_ready.notified().await;
            }
        };
        tokio::select! {
            biased;
            () = self.end.cancelled() => false,
            () = inbound_ready => true,
            () = self.wait_detached(self.limits.expiry) => false,
        }
    }

    fn has_inbound(&self) -> bool {
        matches!(&*lock(&self.routing), Routing::Detached(inbound) if !inbound.is_empty())
    }

    /// Routes messages to this router session from now on, the queued ones first.
    fn attach(&self, handle: &Arc<SessionHandle>) {
        let mut routing = lock(&self.routing);
        let attached = Routing::Attached(Arc::clone(handle));
        if let Routing::Detached(queue) = mem::replace(&mut *routing, attached) {
            for admitted in queue {
                admitted.hand_to(handle);
            }
        }
    }

    /// Waits until the client has been absent for `limit`. While the client is present, also turns responses that are
    /// late (`Limits::patience`) into event streams. Both are polled from time to time, so that answering a request
    /// has to wake no task for them.
    async fn wait_detached(&self, limit: Duration) {
        let limit = limit.max(SHORTEST_LOOK);
        let look = (self.limits.patience / 2).clamp(SHORTEST_LOOK, limit);
        loop {
            match self.away_since().map(|since| since + limit) {
                None => {
                    sleep(look).await;
                    self.outbound.stream_late(self.limits.patience);
                }
                Some(until) if Instant::now() < until => sleep_until(until.into()).await,
                Some(_) => return,
            }
        }
    }
}

impl Admitted {
    fn hand_to(self, handle: &SessionHandle) {
        if let Some(message) = self.message {
            handle.receive(message, self.address);
        }
    }
}

impl PresenceGuard {
    /// Session of the client that is present.
    pub(super) fn session(&self) -> &McpSession {
        &self.0
    }

    /// Interval between keep-alive comments on an idle event stream.
    pub(super) fn keep_alive(&self) -> Duration {
        self.0.limits.keep_alive
    }
}

impl Drop for PresenceGuard {
    fn drop(&mut self) {
        let mut presence = lock(&self.0.presence);
        presence.count -= 1;
        presence.since = Instant::now();
    }
}
