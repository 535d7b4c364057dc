//! Leases of a session: requests them, sends queued requests once one is granted, and follows the end of instances.
//!
//! [`Link`] decides when a lease is needed; this file carries its steps out. A task acquires the lease, and a second
//! one waits for the end of its instance. Servers with `share: call` have no lease: `per_call` acquires an instance
//! for each request.

use std::sync::Arc;

use ostler::keeper::{AcquireError, CallError, Demand, Lease, Scope, Sharing, Turn};
use tokio::task::AbortHandle;

use super::Session;
use super::leased::{CallPermit, LeasedInstance, merge_levels};
use super::link::{self, Step};
use super::request::ClientRequest;
use crate::client::Location;
use crate::protocol::message::code;
use crate::protocol::roots::RootList;
use crate::server_set::{ServerSet, Unavailable};
use crate::upstream::StartFailure;

/// A session's access to one server.
pub(super) type Link = link::Link<LeasedInstance, ClientRequest>;

/// A granted lease, and the client's roots when it was requested.
pub(super) struct Grant {
    pub(super) lease: Lease,
    roots: Option<RootList>,
}

/// Reason why a session gets no lease.
pub(super) enum LeaseError {
    /// The server is unavailable to this client, for this reason.
    Missing(Unavailable),
    Refused(AcquireError),
}

/// Result of a task of the session.
pub(super) enum TaskOutput {
    Lease(Arc<str>, Result<Grant, LeaseError>),
    /// A lease for one call (`share: call`).
    PerCall(Arc<str>, ClientRequest, Result<Grant, LeaseError>),
    /// Permit to begin a call at an instance that limits concurrency or serves one calling session at a time, or the
    /// error text after the queue timeout.
    Turn(Arc<str>, ClientRequest, Result<CallPermit, String>),
    /// The keeper has retired the instance with this number.
    Left(Arc<str>, u64),
}

impl Session {
    /// Sends a request to a server, after acquiring a lease if the session has none.
    pub(super) fn forward(&mut self, server: &Arc<str>, request: ClientRequest) {
        let leased = self.leased(server).cloned();
        match leased {
            Some(leased) if request.is_handshake() => {
                let result = leased.attachment.upstream.initialize();
                self.answer_initialize(&request.id(), server, result);
            }
            Some(leased) => match leased.try_permit() {
                Some(permit) => self.send_now(server, &leased, request, permit.turn),
                None => self.send_in_turn(server, &leased, request),
            },
            None if self.is_per_call(server) => self.forward_per_call(server, request),
            None => self.enqueue(server, request, false),
        }
    }

    /// Queues a request until the session has a lease on the server.
    fn enqueue(&mut self, server: &Arc<str>, request: ClientRequest, has_ended: bool) {
        let number = self.next_number();
        let location = Location::Queue(Arc::clone(server), number);
        self.client.calls().wait_at(&request.id(), location);
        let step = self.link(server).enqueue(number, request, has_ended);
        self.carry_out(server, step);
    }

    /// Acquires a lease without a request for it.
    pub(super) fn acquire(&mut self, server: &Arc<str>) {
        if self.is_per_call(server) {
            // With `share: call` an instance without a call can only list what the server offers.
            return self.begin_listing(server);
        }
        let step = self.link(server).want();
        self.carry_out(server, step);
    }

    fn carry_out(&mut self, server: &Arc<str>, step: Step) {
        match step {
            Step::Acquire => self.ask_for_lease(server),
            Step::Wait => {}
        }
    }

    pub(super) fn link(&mut self, server: &Arc<str>) -> &mut Link {
        self.links.entry(Arc::clone(server)).or_default()
    }

    pub(super) fn leased(&self, server: &str) -> Option<&LeasedInstance> {
        self.links.get(server)?.leased()
    }

    /// Reason why the session got no lease on a server the last time.
    pub(super) fn failure(&self, server: &str) -> Option<&StartFailure> {
        self.links.get(server)?.failure()
    }

    fn is_per_call(&mut self, server: &str) -> bool {
        self.servers.now().sharing(server) == Sharing::Call
    }

    /// Takes back a request that was not sent to a server yet. Returns false if it was sent, or can't be cancelled.
    pub(super) fn withdraw(&mut self, id: &[u8]) -> bool {
        match self.client.calls().location(id) {
            None => false,
            Some(Location::Queue(server, number)) => {
                let link = self.links.get_mut(server);
                // Clients can't cancel `initialize`.
                link.is_some_and(|link| link.withdraw(*number, |one| !one.is_handshake()))
            }
            Some(Location::Aggregation(number)) => self.aggregations.withdraw(*number),
            Some(Location::Task(task)) => {
                task.abort();
                true
            }
        }
    }

    pub(super) fn done(&mut self, output: TaskOutput) {
        match output {
            TaskOutput::Lease(server, Ok(grant)) => self.take_over(&server, grant),
            TaskOutput::Lease(server, Err(reason)) => self.refuse_waiting(&server, &reason),
            TaskOutput::PerCall(server, request, granted) => {
                self.call_on_own_instance(&server, request, granted);
            }
            TaskOutput::Turn(server, request, permit) => self.take_turn(&server, request, permit),
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
        let is_in_agent = self.servers.now().sharing(server) == Sharing::Agent;
        if is_in_agent {
            self.ask_roots_once();
        }
        let is_undivided = self.has_one_caller(server);
        let (scope, server) = (Arc::clone(&self.scope), Arc::clone(server));
        let (server_set, client) = (Arc::clone(&self.servers.set), Arc::clone(&self.client));
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
        let is_in_agent = self.servers.now().sharing(server) == Sharing::Agent;
        if is_in_agent && !self.client.roots().are(grant.roots.as_ref()) {
            return self.ask_for_lease(server);
        }
        let number = grant.lease.instance();
        let watch = self.await_leave(server, grant.lease.clone());
        let Some(mut leased) = self.hold_lease(server, grant) else {
            return self.link(server).grant_too_late(number);
        };
        leased.watch = Some(watch);
        self.resubscribe(server, &leased);
        let lease = leased.lease.clone();
        for request in self.link(server).grant(number, leased) {
            self.deliver(server, request);
        }
        // Ends the reservation of the lease: without requests in flight the instance may be evicted.
        drop(lease.hold());
    }

    /// Forwards a request, and updates the client's subscriptions if it subscribes or unsubscribes.
    pub(super) fn deliver(&mut self, server: &Arc<str>, request: ClientRequest) {
        match request.frame.method() {
            b"resources/subscribe" => self.subscribe(server, request),
            b"resources/unsubscribe" => self.unsubscribe(server, request),
            _ => self.forward(server, request),
        }
    }

    /// Attaches the client to the instance of a lease. Returns `None` if the instance has ended.
    pub(super) fn hold_lease(&mut self, server: &Arc<str>, grant: Grant) -> Option<LeasedInstance> {
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
        let view = self.servers.now().get(server).cloned();
        let summary = view.as_ref().and_then(|view| view.summary());
        let limit = summary.map(|summary| summary.call_limit).unwrap_or_default();
        let tools = summary.map(|summary| Arc::clone(&summary.tools)).unwrap_or_default();
        let client = Arc::clone(&self.client);
        let leased = LeasedInstance { lease, client, attachment, limit, tools, watch: None };
        merge_levels(&leased);
        Some(leased)
    }

    /// Whether shared instances of a server serve one calling session at a time.
    fn has_one_caller(&mut self, server: &str) -> bool {
        let sharing = self.servers.now().sharing(server);
        let is_shared = matches!(sharing, Sharing::All | Sharing::Agent);
        let name = is_shared.then(|| self.catalog_name(server)).flatten();
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
        let is_needed = !self.client.topics(|of| *of == **server).is_empty();
        let step = self.link(server).retire(number, is_needed);
        self.carry_out(server, step);
    }

    fn refuse_waiting(&mut self, server: &Arc<str>, error: &LeaseError) {
        let failure = error.failure(server);
        for request in self.link(server).refuse(failure.clone()) {
            self.fail(&request, &failure);
        }
    }

    pub(super) fn fail(&self, request: &ClientRequest, failure: &StartFailure) {
        self.client.fail_to_start(&request.id(), failure);
    }

    pub(super) fn send_now(
        &mut self,
        server: &Arc<str>,
        leased: &LeasedInstance,
        request: ClientRequest,
        turn: Turn,
    ) {
        match leased.send(&request, turn) {
            Ok(()) => {}
            // The request was not sent, so the next instance can have it.
            Err(CallError::Closed) => {
                // The call is closed if the client has already got an error because the instance ended.
                if self.client.calls().is_open(&request.id()) {
                    self.enqueue(server, request, leased.lease.ending().is_some());
                }
            }
            Err(error) => {
                let text = error.to_string();
                self.client.fail(&request.id(), code::INTERNAL, &text, Some("unavailable"));
            }
        }
    }
}

impl LeaseError {
    /// The error as clients get it.
    pub(super) fn failure(&self, server: &str) -> StartFailure {
        match self {
            Self::Missing(why) => StartFailure::unavailable(server, why),
            Self::Refused(error) => StartFailure::from(error),
        }
    }
}

async fn acquire(
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
