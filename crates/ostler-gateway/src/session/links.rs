//! Links of a session to its servers.
//!
//! A session has at most one `Link` for each server. The first request to a server creates a waiting link with a
//! queue, and a task acquires a lease; further requests join the queue. When the lease is granted, the link becomes a
//! leased instance and the queue is sent in order. When it is refused, every queued request fails with the reason.
//!
//! A second task waits for the end of the instance. When the keeper has retired it, the link is removed; a new lease
//! is acquired only if requests are queued or the client has subscriptions. Servers with `share: call` have no link:
//! `per_call` acquires an instance for each request.

use std::sync::Arc;

use ostler::keeper::{AcquireError, CallError, Demand, Lease, Scope, Sharing, Turn};
use tokio::task::AbortHandle;

use super::Session;
use super::aggregate::Aggregation;
use super::leased::{LeasedInstance, merge_levels};
use super::parcel::{Parcel, Queue};
use super::turns::CallPermit;
use crate::client::Location;
use crate::protocol::message::code;
use crate::protocol::roots::RootList;
use crate::server_set::ServerSet;
use crate::upstream::StartFailure;

/// A session's access to one server.
pub(super) enum Link {
    /// The session has requested a lease; these requests wait for it.
    Waiting(Queue),
    Leased(LeasedInstance),
}

/// A granted lease, and the client's roots when it was requested.
pub(super) struct Grant {
    pub(super) lease: Lease,
    roots: Option<RootList>,
}

/// Reason why a session gets no lease.
pub(super) enum LeaseError {
    /// The server is unavailable to this client, for this reason.
    Missing(Arc<str>),
    Refused(AcquireError),
}

/// Result of a task of the session.
pub(super) enum TaskOutput {
    Lease(Arc<str>, Result<Grant, LeaseError>),
    /// A lease for one call (`share: call`).
    PerCall(Arc<str>, Parcel, Result<Grant, LeaseError>),
    /// Permit to begin a call at an instance that limits concurrency or serves one calling session at a time, or the
    /// error text after the queue timeout.
    Turn(Arc<str>, Parcel, Result<CallPermit, String>),
    /// The keeper has retired the instance with this number.
    Left(Arc<str>, u64),
}

impl Session {
    /// Sends a request to a server, after acquiring a lease if the session has none.
    pub(super) fn forward(&mut self, server: &Arc<str>, parcel: Parcel) {
        match self.links.get(server) {
            Some(Link::Leased(leased)) => {
                let leased = leased.clone();
                self.send(server, &leased, parcel);
            }
            Some(Link::Waiting(_)) => self.enqueue(server, parcel),
            None if self.server_set.sharing(server) == Sharing::Call => {
                self.forward_per_call(server, parcel);
            }
            None => {
                self.enqueue(server, parcel);
                self.ask_for_lease(server);
            }
        }
    }

    /// Queues a request until the session has a lease on the server.
    pub(super) fn enqueue(&mut self, server: &Arc<str>, parcel: Parcel) {
        let number = self.next_number();
        let location = Location::Queue(Arc::clone(server), number);
        self.client.calls().wait_at(&parcel.id(), location);
        let link = self.links.entry(Arc::clone(server));
        let link = link.or_insert_with(|| Link::Waiting(Queue::new()));
        if let Link::Leased(_) = link {
            *link = Link::Waiting(Queue::new());
        }
        if let Link::Waiting(queue) = link {
            queue.insert(number, parcel);
        }
    }

    /// Ends the wait for a lease. Returns the queued requests.
    pub(super) fn dequeue(&mut self, server: &Arc<str>) -> Vec<Parcel> {
        let Some(Link::Waiting(queue)) = self.links.remove(server) else { return Vec::new() };
        queue.into_values().collect()
    }

    /// Acquires a lease without a request for it.
    pub(super) fn acquire(&mut self, server: &Arc<str>) {
        if self.links.contains_key(server) {
            return;
        }
        if self.server_set.sharing(server) == Sharing::Call {
            // With `share: call` an instance without a call can only list what the server offers.
            return self.begin_listing(server);
        }
        self.links.insert(Arc::clone(server), Link::Waiting(Queue::new()));
        self.ask_for_lease(server);
    }

    pub(super) fn leased(&self, server: &str) -> Option<&LeasedInstance> {
        match self.links.get(server) {
            Some(Link::Leased(leased)) => Some(leased),
            Some(Link::Waiting(_)) | None => None,
        }
    }

    /// Takes back a request that was not sent to a server yet. Returns false if it was sent, or can't be cancelled.
    pub(super) fn withdraw(&mut self, id: &[u8]) -> bool {
        match self.client.calls().location(id) {
            None => return false,
            Some(Location::Queue(server, number)) => {
                let Some(Link::Waiting(queue)) = self.links.get_mut(server) else { return false };
                // Clients can't cancel `initialize`.
                if queue.get(number).is_none_or(|one| one.frame.method() == b"initialize") {
                    return false;
                }
                queue.remove(number);
            }
            Some(Location::Aggregation(number)) => {
                if self.aggregations.get(number).is_none_or(Aggregation::is_handshake) {
                    return false;
                }
                self.aggregations.remove(number);
            }
            Some(Location::Task(task)) => task.abort(),
        }
        true
    }

    pub(super) fn done(&mut self, output: TaskOutput) {
        match output {
            TaskOutput::Lease(server, Ok(grant)) => self.take_over(&server, grant),
            TaskOutput::Lease(server, Err(reason)) => self.refuse_waiting(&server, &reason),
            TaskOutput::PerCall(server, parcel, granted) => {
                self.call_on_own_instance(&server, parcel, granted);
            }
            TaskOutput::Turn(server, parcel, permit) => self.take_turn(&server, parcel, permit),
            TaskOutput::Left(server, number) => self.left(&server, number),
        }
    }

    fn ask_for_lease(&mut self, server: &Arc<str>) {
        self.for_lease(server, TaskOutput::Lease);
    }

    /// Spawns a task that acquires a lease and makes its output with `then`. If the client's roots decide which
    /// instance it gets, the task waits for them first.
    pub(super) fn for_lease(
        &mut self,
        server: &Arc<str>,
        then: impl FnOnce(Arc<str>, Result<Grant, LeaseError>) -> TaskOutput + Send + 'static,
    ) -> AbortHandle {
        let (scope, server) = (Arc::clone(&self.scope), Arc::clone(server));
        let (server_set, client) = (Arc::clone(&self.server_set), Arc::clone(&self.client));
        let is_in_agent = self.shares(&server) == Sharing::Agent;
        if is_in_agent {
            self.ask_roots_once();
        }
        let is_undivided = self.has_one_caller(&server);
        let profile = client.profile(server_set.sharing(&server));
        self.tasks.spawn(async move {
            let (mut demand, roots) = if is_in_agent {
                client.demand_in_agent().await
            } else {
                (Demand::profile(profile), None)
            };
            demand.is_undivided = is_undivided;
            let lease = acquire(&scope, &server_set, &server, &demand).await;
            then(server, lease.map(|lease| Grant { lease, roots }))
        })
    }

    fn take_over(&mut self, server: &Arc<str>, grant: Grant) {
        // The client's roots may have changed since the lease was requested.
        if self.shares(server) == Sharing::Agent && !self.client.roots().are(grant.roots.as_ref()) {
            return self.ask_for_lease(server);
        }
        let watch = self.await_leave(server, grant.lease.clone());
        // If the instance has ended meanwhile, the queue waits for the next lease, which `left` requests.
        let Some(mut leased) = self.hold_lease(server, grant) else { return };
        leased.watch = Some(watch);
        self.resubscribe(server, &leased);
        let waiting = self.dequeue(server);
        self.links.insert(Arc::clone(server), Link::Leased(leased));
        for parcel in waiting {
            self.deliver(server, parcel);
        }
        // Ends the reservation of the lease: without requests in flight the instance may be evicted.
        if let Some(leased) = self.leased(server) {
            drop(leased.lease.hold());
        }
    }

    /// Forwards a request, and updates the client's subscriptions if it subscribes or unsubscribes.
    pub(super) fn deliver(&mut self, server: &Arc<str>, parcel: Parcel) {
        match parcel.frame.method() {
            b"resources/subscribe" => self.subscribe(server, parcel),
            b"resources/unsubscribe" => self.unsubscribe(server, parcel),
            _ => self.forward(server, parcel),
        }
    }

    /// Attaches the client to the instance of a lease. Returns `None` if the instance has ended.
    pub(super) fn hold_lease(&self, server: &Arc<str>, grant: Grant) -> Option<LeasedInstance> {
        let Grant { lease, roots } = grant;
        let upstream = self.upstreams.upstream(lease.instance())?;
        if let Some(name) = self.catalog_name(server) {
            upstream.describe_as(&name, &self.upstreams.catalog);
        }
        if let Some(roots) = &roots {
            upstream.settle_roots(roots);
        }
        if self.has_one_caller(server) {
            upstream.serve_one_caller();
        }
        let attachment = upstream.attach(Arc::clone(&self.client) as _);
        let limit = self.server_set.call_limit(server);
        let tools = self.server_set.tools(server);
        let client = Arc::clone(&self.client);
        let leased = LeasedInstance { lease, client, attachment, limit, tools, watch: None };
        merge_levels(&leased);
        Some(leased)
    }

    /// Whether shared instances of a server serve one calling session at a time.
    fn has_one_caller(&self, server: &str) -> bool {
        let is_shared = matches!(self.shares(server), Sharing::All | Sharing::Agent);
        let name = self.catalog_name(server).filter(|_| is_shared);
        name.is_some_and(|name| self.upstreams.catalog.has_one_caller(&name.subject))
    }

    fn await_leave(&mut self, server: &Arc<str>, lease: Lease) -> AbortHandle {
        let (server, number) = (Arc::clone(server), lease.instance());
        self.tasks.spawn(async move {
            lease.left().await;
            TaskOutput::Left(server, number)
        })
    }

    /// Handles the end of an instance. Acquires another one only for queued requests or subscriptions.
    fn left(&mut self, server: &Arc<str>, number: u64) {
        match self.links.remove(server) {
            Some(Link::Leased(leased)) if leased.lease.instance() != number => {
                self.links.insert(Arc::clone(server), Link::Leased(leased));
            }
            Some(Link::Waiting(waiting)) => {
                self.links.insert(Arc::clone(server), Link::Waiting(waiting));
                self.ask_for_lease(server);
            }
            Some(Link::Leased(_)) | None
                if !self.client.topics(|of| *of == **server).is_empty() =>
            {
                self.acquire(server);
            }
            Some(Link::Leased(_)) | None => {}
        }
    }

    pub(super) fn refuse_waiting(&mut self, server: &Arc<str>, error: &LeaseError) {
        if let Some(Link::Waiting(_)) = self.links.get(server) {
            let waiting = self.dequeue(server);
            self.refuse(server, waiting, error);
        }
    }

    pub(super) fn refuse(
        &mut self,
        server: &Arc<str>,
        parcels: impl IntoIterator<Item = Parcel>,
        error: &LeaseError,
    ) {
        let failure = match error {
            LeaseError::Missing(why) => {
                StartFailure { reason: "unavailable", text: format!("{server}: {why}") }
            }
            LeaseError::Refused(error) => StartFailure::from(error),
        };
        for parcel in parcels {
            self.client.fail(&parcel.id(), code::INTERNAL, &failure.text, Some(failure.reason));
        }
        self.failures.insert(Arc::clone(server), failure);
    }

    fn send(&mut self, server: &Arc<str>, leased: &LeasedInstance, parcel: Parcel) {
        if parcel.frame.method() == b"initialize" {
            return self.answer_initialize(
                &parcel.id(),
                server,
                leased.attachment.upstream.initialize(),
            );
        }
        self.send_in_turn(server, leased, parcel);
    }

    pub(super) fn send_now(
        &mut self,
        server: &Arc<str>,
        leased: &LeasedInstance,
        parcel: Parcel,
        turn: Turn,
    ) {
        match leased.send(&parcel, turn) {
            Ok(()) => {}
            // The request was not sent, so the next instance can have it.
            Err(CallError::Closed) => {
                // The call is closed if the client has already got an error because the instance ended.
                if !self.client.calls().is_open(&parcel.id()) {
                    return;
                }
                self.enqueue(server, parcel);
                if leased.lease.ending().is_some() {
                    self.ask_for_lease(server);
                }
            }
            Err(error) => {
                let text = error.to_string();
                self.client.fail(&parcel.id(), code::INTERNAL, &text, Some("unavailable"));
            }
        }
    }
}

pub(super) async fn acquire(
    scope: &Scope,
    server_set: &ServerSet,
    server: &str,
    demand: &Demand,
) -> Result<Lease, LeaseError> {
    loop {
        if let Some(reason) = server_set.unavailable_reason(server) {
            return Err(LeaseError::Missing(reason));
        }
        let unknown = || AcquireError::UnknownServer(server.to_owned());
        let id = server_set.id(server).ok_or_else(|| LeaseError::Refused(unknown()))?;
        match scope.acquire_with(&id, demand).await {
            // A reload has changed the server's id meanwhile: try again with the new one.
            Err(AcquireError::UnknownServer(_))
                if server_set.id(server).is_none_or(|now| now != id) => {}
            lease => return lease.map_err(LeaseError::Refused),
        }
    }
}
