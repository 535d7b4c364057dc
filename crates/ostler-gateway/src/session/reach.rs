//! How a client's messages reach a server: with the lease that it has, or after it has got one.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ostler::Frame;
use ostler::keeper::{AcquireError, CallError, Lease, Scope, Sharing, Turn};
use tokio::task::AbortHandle;

use super::Session;
use crate::client::Topic;
use crate::hub::{LIST_LIMIT, LISTS};
use crate::in_flight::{Attachment, InFlight};
use crate::log_level;
use crate::menu::Menu;
use crate::message::{self, code};
use crate::tools::Tools;
use crate::variant;

/// Whether the client has an instance of a server.
pub(super) enum Reach {
    /// One is being asked for; these are for it.
    Waiting(VecDeque<Parcel>),
    Held(Held),
}

/// An instance that the client may use.
#[derive(Clone)]
pub(super) struct Held {
    pub(super) lease: Lease,
    pub(super) attachment: Arc<Attachment>,
    limit: Duration,
    tools: Arc<Tools>,
}

/// A request on its way, with what has to be changed in it.
pub(super) struct Parcel {
    pub(super) frame: Frame,
    pub(super) edits: Vec<(Range<usize>, Bytes)>,
    /// What it subscribes to.
    pub(super) subscribes: Option<Topic>,
}

impl Parcel {
    /// The client's own id of it.
    pub(super) fn id(&self) -> Bytes {
        self.frame.bytes().slice(self.frame.id_edges())
    }
}

impl From<Frame> for Parcel {
    fn from(frame: Frame) -> Self {
        Self { frame, edits: Vec::new(), subscribes: None }
    }
}

/// Why the client gets no instance.
pub(super) enum NoLease {
    /// The client can't have any of this server.
    Missing(Arc<str>),
    Refused(AcquireError),
}

/// What is waited for on the client's behalf.
pub(super) enum Errand {
    Lease(Arc<str>, Result<Lease, NoLease>),
    /// An instance for one call.
    Alone(Arc<str>, Parcel, Result<Lease, NoLease>),
    /// A server was asked what it has.
    Looked(Arc<str>, Result<(), NoLease>),
    Turn(Arc<str>, Parcel, Turn),
    /// An instance goes.
    Left(Arc<str>, u64),
}

impl Session {
    /// Brings a request to a server, which is started if need be.
    pub(super) fn forward(&mut self, server: &Arc<str>, parcel: Parcel) {
        if self.menu.sharing(server) == Sharing::Call {
            return self.forward_alone(server, parcel);
        }
        match self.reach.get_mut(server) {
            Some(Reach::Held(held)) => {
                let held = held.clone();
                self.send(server, &held, parcel);
            }
            Some(Reach::Waiting(waiting)) => waiting.push_back(parcel),
            None => {
                self.reach.insert(Arc::clone(server), Reach::Waiting(VecDeque::from([parcel])));
                self.ask_for_lease(server);
            }
        }
    }

    /// Has an instance started although there is no request for it yet.
    pub(super) fn reach_for(&mut self, server: &Arc<str>) {
        if self.reach.contains_key(server) {
            return;
        }
        if self.menu.sharing(server) == Sharing::Call {
            return self.look_at(server, VecDeque::new());
        }
        self.reach.insert(Arc::clone(server), Reach::Waiting(VecDeque::new()));
        self.ask_for_lease(server);
    }

    pub(super) fn held(&self, server: &str) -> Option<&Held> {
        match self.reach.get(server) {
            Some(Reach::Held(held)) => Some(held),
            Some(Reach::Waiting(_)) | None => None,
        }
    }

    pub(super) fn is_waiting(&self) -> bool {
        let mut all = self.reach.values();
        !self.alone.is_idle()
            || all.any(|reach| matches!(reach, Reach::Waiting(waiting) if !waiting.is_empty()))
    }

    /// Whether a request with this id waits for an instance.
    pub(super) fn has_waiting(&self, id: &[u8]) -> bool {
        let waits = |reach: &Reach| match reach {
            Reach::Waiting(waiting) => waiting.iter().any(|parcel| parcel.frame.id() == id),
            Reach::Held(_) => false,
        };
        self.alone.has(id)
            || self.gathers.iter().any(|gather| gather.is_for(id))
            || self.reach.values().any(waits)
    }

    /// Nobody waits for this request any more. Whether it had not been sent.
    pub(super) fn withdraw(&mut self, id: &[u8]) -> bool {
        let before = self.has_waiting(id);
        self.alone.cancel(id);
        self.gathers.retain(|gather| !gather.is_for(id));
        for reach in self.reach.values_mut() {
            if let Reach::Waiting(waiting) = reach {
                // A handshake can't be taken back.
                waiting.retain(|parcel| {
                    parcel.frame.id() != id || parcel.frame.method() == b"initialize"
                });
            }
        }
        before && !self.has_waiting(id)
    }

    pub(super) fn done(&mut self, errand: Errand) {
        match errand {
            Errand::Lease(server, Ok(lease)) => self.take_over(&server, lease),
            Errand::Lease(server, Err(reason)) => self.refuse_waiting(&server, &reason),
            Errand::Alone(server, parcel, lease) => self.call_alone(&server, parcel, lease),
            Errand::Looked(server, looked) => self.looked(&server, looked),
            Errand::Turn(server, parcel, turn) => match self.held(&server).cloned() {
                Some(held) => self.send_now(&server, &held, parcel, turn),
                None => self.forward(&server, parcel),
            },
            Errand::Left(server, number) => self.left(&server, number),
        }
    }

    fn ask_for_lease(&mut self, server: &Arc<str>) {
        self.for_lease(server, Errand::Lease);
    }

    /// Asks for a lease, for whatever is to be done with it.
    pub(super) fn for_lease(
        &mut self,
        server: &Arc<str>,
        then: impl FnOnce(Arc<str>, Result<Lease, NoLease>) -> Errand + Send + 'static,
    ) -> AbortHandle {
        let (scope, server) = (Arc::clone(&self.scope), Arc::clone(server));
        let (menu, profile) = (Arc::clone(&self.menu), self.profile(&server));
        self.errands.spawn(async move {
            let lease = acquire(&scope, &menu, &server, &profile).await;
            then(server, lease)
        })
    }

    fn take_over(&mut self, server: &Arc<str>, lease: Lease) {
        self.await_leave(server, lease.clone());
        // If it has ended since, what waits for it waits for the next one.
        let Some(held) = self.hold_lease(server, lease) else { return };
        self.resubscribe(server, &held);
        let waiting = self.reach.insert(Arc::clone(server), Reach::Held(held));
        if let Some(Reach::Waiting(waiting)) = waiting {
            for parcel in waiting {
                self.deliver(server, parcel);
            }
        }
        // Whoever only wanted to know what it is keeps it from nobody.
        if let Some(held) = self.held(server) {
            drop(held.lease.hold());
        }
    }

    /// What has waited for an instance.
    fn deliver(&mut self, server: &Arc<str>, parcel: Parcel) {
        match parcel.frame.method() {
            b"resources/subscribe" => self.subscribe(server, parcel),
            b"resources/unsubscribe" => self.unsubscribe(server, parcel),
            _ => self.forward(server, parcel),
        }
    }

    /// The instance of a lease, as long as it is there.
    pub(super) fn hold_lease(&self, server: &Arc<str>, lease: Lease) -> Option<Held> {
        let upstream = self.gateway.hub().upstream(lease.instance())?;
        let attachment = upstream.attach(&self.client);
        let limit = self.menu.call_limit(server);
        let held = Held { lease, attachment, limit, tools: self.menu.tools(server) };
        merge_levels(&held);
        Some(held)
    }

    fn await_leave(&mut self, server: &Arc<str>, lease: Lease) {
        let (server, number) = (Arc::clone(server), lease.instance());
        self.errands.spawn(async move {
            lease.left().await;
            Errand::Left(server, number)
        });
    }

    /// An instance goes. Another one is asked for only if somebody needs it.
    fn left(&mut self, server: &Arc<str>, number: u64) {
        match self.reach.remove(server) {
            Some(Reach::Held(held)) if held.lease.instance() != number => {
                self.reach.insert(Arc::clone(server), Reach::Held(held));
            }
            Some(Reach::Waiting(waiting)) => {
                self.reach.insert(Arc::clone(server), Reach::Waiting(waiting));
                self.ask_for_lease(server);
            }
            Some(Reach::Held(_)) | None if !self.client.topics(server).is_empty() => {
                self.reach_for(server);
            }
            Some(Reach::Held(_)) | None => {}
        }
    }

    pub(super) fn refuse_waiting(&mut self, server: &Arc<str>, error: &NoLease) {
        if let Some(Reach::Waiting(waiting)) = self.reach.remove(server) {
            self.refuse(server, waiting, error);
        }
    }

    pub(super) fn refuse(
        &mut self,
        server: &Arc<str>,
        parcels: impl IntoIterator<Item = Parcel>,
        error: &NoLease,
    ) {
        let (reason, text) = match error {
            NoLease::Missing(why) => ("unavailable", format!("{server}: {why}")),
            NoLease::Refused(error) => {
                let reason = match error {
                    AcquireError::BackingOff { .. } | AcquireError::Failed(_) => "upstream_failed",
                    AcquireError::UnknownServer(_) => "unknown_server",
                    _ => "unavailable",
                };
                (reason, variant::readable(&error.to_string()).into_owned())
            }
        };
        for parcel in parcels {
            self.client.fail(parcel.frame.id(), code::INTERNAL, &text, Some(reason));
        }
        self.failures.insert(Arc::clone(server), text);
    }

    fn send(&mut self, server: &Arc<str>, held: &Held, parcel: Parcel) {
        if parcel.frame.method() == b"initialize" {
            return self.welcome(&parcel.id(), server, held.attachment.upstream.initialize());
        }
        if let Some(turn) = held.lease.try_turn() {
            return self.send_now(server, held, parcel, turn);
        }
        let (server, lease) = (Arc::clone(server), held.lease.clone());
        self.errands.spawn(async move { Errand::Turn(server, parcel, lease.turn().await) });
    }

    fn send_now(&mut self, server: &Arc<str>, held: &Held, parcel: Parcel, turn: Turn) {
        match held.send(&parcel, turn) {
            Ok(()) => {}
            // It was not sent, so that the next instance can have it.
            Err(CallError::Closed) => {
                let waiting = Reach::Waiting(VecDeque::from([parcel]));
                self.reach.insert(Arc::clone(server), waiting);
                if held.lease.ending().is_some() {
                    self.ask_for_lease(server);
                }
            }
            Err(error) => {
                let id = parcel.frame.id();
                self.client.fail(id, code::INTERNAL, &error.to_string(), Some("unavailable"));
            }
        }
    }
}

impl Held {
    pub(super) fn send(&self, parcel: &Parcel, turn: Turn) -> Result<(), CallError> {
        let frame = &parcel.frame;
        let id = parcel.id();
        let token = message::progress_token(frame);
        let limit = if is_list(frame) { self.limit.min(LIST_LIMIT) } else { self.limit };
        let attachment = Arc::clone(&self.attachment);
        let reply = {
            let id = id.clone();
            move |answer| attachment.client.answered(&id, answer)
        };
        let line = |call| {
            let mut edits = parcel.edits.clone();
            edits.push((frame.id_edges(), message::number(call)));
            let Attachment { client, upstream, calls } = &*self.attachment;
            let since = Instant::now();
            calls.fetch_add(1, Ordering::Relaxed);
            let in_flight = InFlight {
                lease: self.lease.clone(),
                attachment: Arc::clone(&self.attachment),
                call,
                has_progress: token.is_some(),
                filter: filter_for(frame, &self.tools),
                subscribes: parcel.subscribes.clone(),
                heard: self.lease.heard(),
                limit,
                since,
                until: since + limit,
            };
            client.pending().insert(id.clone(), in_flight);
            if let Some(edges) = token {
                let own = frame.bytes().slice(edges.clone());
                upstream.expect_progress(call, client, own, id.clone());
                edits.push((edges, message::number(call)));
            }
            message::splice(frame.bytes(), edits)
        };
        let sent = self.lease.begin(turn, line, reply);
        if sent.is_err()
            && let Some(call) = self.attachment.client.take_pending(frame.id())
        {
            call.settle();
        }
        sent.map(|_| ())
    }
}

pub(super) async fn acquire(
    scope: &Scope,
    menu: &Menu,
    server: &str,
    profile: &Arc<str>,
) -> Result<Lease, NoLease> {
    loop {
        if let Some(reason) = menu.missing(server) {
            return Err(NoLease::Missing(reason));
        }
        let unknown = || AcquireError::UnknownServer(server.to_owned());
        let id = menu.id(server).ok_or_else(|| NoLease::Refused(unknown()))?;
        match scope.acquire_with(&id, profile).await {
            // The configuration has changed since it was asked for.
            Err(AcquireError::UnknownServer(_)) if menu.id(server).is_none_or(|now| now != id) => {}
            lease => return lease.map_err(NoLease::Refused),
        }
    }
}

pub(super) fn is_list(frame: &Frame) -> bool {
    LISTS.iter().any(|(list, _)| list.as_bytes() == frame.method())
}

/// A list that comes from the server itself may hold what the configuration does not allow.
fn filter_for(frame: &Frame, tools: &Arc<Tools>) -> Option<Arc<Tools>> {
    let matters = !tools.is_everything() && frame.method() == b"tools/list";
    matters.then(|| Arc::clone(tools))
}

/// Tells the server the least severe level that anybody wants to hear.
pub(super) fn merge_levels(held: &Held) {
    let upstream = &held.attachment.upstream;
    if upstream.can(&["logging"])
        && let Some(level) = upstream.merge_log_level()
    {
        let params = format!(r#"{{"level":"{}"}}"#, log_level::name(level));
        upstream.request("logging/setLevel", &params);
    }
}
