//! A client's stay: from its handshake until it says goodbye, or has been away for too long.
//!
//! While the client is there, its stay is a session of the gateway like any other. When it has been away for a while
//! that session ends, with all that it holds; what the client has said of itself is kept, and the next thing that it
//! says begins a session that knows it.

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

/// Between two looks whether a client is there, at least.
const SHORTEST_LOOK: Duration = Duration::from_millis(10);

/// One client's stay.
#[derive(Debug)]
pub(super) struct McpSession {
    pub(super) id: u128,
    pub(super) credential: Arc<Credential>,
    /// Counts the bytes of its requests that wait.
    pub(super) budget: Arc<ByteBudget>,
    /// The server that it wants, or all.
    pub(super) server: Option<String>,
    /// The version that was agreed upon.
    pub(super) version: String,
    pub(super) outbound: Arc<Outbound>,
    pub(super) limits: Limits,
    /// The stream of a client that has only one, for all that it is told.
    pub(super) only: OnceLock<u64>,
    routing: Mutex<Routing>,
    /// Something is for a session that has not begun.
    inbound_ready: Notify,
    presence: Mutex<Presence>,
    /// By its client, with the token that has let it in, or with the gateway.
    end: CancellationToken,
}

/// A client that begins its stay.
#[derive(Debug)]
pub(super) struct NewSession {
    pub(super) credential: Arc<Credential>,
    pub(super) budget: Arc<ByteBudget>,
    pub(super) server: Option<String>,
    pub(super) version: String,
    pub(super) spec: SessionSpec,
}

/// Where what a client says is heard.
#[derive(Debug)]
enum Routing {
    /// Nowhere: it has no session, and this is for the next one.
    Detached(VecDeque<Admitted>),
    Attached(Arc<SessionHandle>),
    /// There will be none any more.
    Closed,
}

#[derive(Debug)]
struct Presence {
    /// Requests that are answered, and streams that are read, at this moment.
    count: usize,
    /// When there was the last.
    since: Instant,
}

/// Shows that a client is there.
#[derive(Debug)]
pub(super) struct PresenceGuard(Arc<McpSession>);

/// A message of the client on its way to the router session.
#[derive(Debug, Default)]
pub(super) struct Inbound {
    /// None if a request only shows that the client is there.
    pub(super) message: Option<ClientMessage>,
    /// How many requests are in it.
    pub(super) requests: usize,
    /// The event stream for their responses.
    pub(super) stream: u64,
}

/// An [`Inbound`] whose requests count for their principal.
#[derive(Debug)]
struct Admitted {
    message: Option<ClientMessage>,
    address: ReturnAddress,
}

impl McpSession {
    /// A stay of which nobody knows yet.
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

    /// Its client is there, as long as this is held.
    pub(super) fn presence_guard(self: &Arc<Self>) -> PresenceGuard {
        lock(&self.presence).count += 1;
        PresenceGuard(Arc::clone(self))
    }

    /// What its principal uses of the gateway.
    pub(super) fn account(&self) -> &Arc<Account> {
        self.budget.account()
    }

    /// Since when its client has been away, if it is.
    pub(super) fn away_since(&self) -> Option<Instant> {
        let (is_present, since) = self.presence();
        (!is_present).then_some(since)
    }

    /// Whether its client is there, and when it was there last without that.
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

    /// Ends it.
    pub(super) fn end(&self) {
        self.outbound.end();
        self.end.cancel();
    }

    /// Lives it, to its end.
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

    /// Waits until its client says something. False if it never will.
    async fn wait_for_request(&self) -> bool {
        let inbound_ready = async {
            // It may be from before, and answered already.
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

    /// From now on messages go to this router session, the queued ones first.
    fn attach(&self, handle: &Arc<SessionHandle>) {
        let mut routing = lock(&self.routing);
        let attached = Routing::Attached(Arc::clone(handle));
        if let Routing::Detached(queue) = mem::replace(&mut *routing, attached) {
            for admitted in queue {
                admitted.hand_to(handle);
            }
        }
    }

    /// Waits until its client has been away for so long; while it is there, whoever has waited for an answer for too
    /// long gets a stream. Both are looked at from time to time, because nobody should
    /// have to be woken whenever a request is answered.
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
    /// Whose client it is.
    pub(super) fn session(&self) -> &McpSession {
        &self.0
    }

    /// How often its client is shown that we are there.
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
