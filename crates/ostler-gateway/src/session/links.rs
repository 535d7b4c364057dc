//! How a client's messages reach a server: with the lease that it has, or after it has got one.

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

/// Whether the client has an instance of a server.
pub(super) enum Link {
    /// One is being asked for; these are for it.
    Waiting(Queue),
    LeasedInstance(LeasedInstance),
}

/// A lease, and the roots that its holder had when it was asked for.
pub(super) struct Grant {
    pub(super) lease: Lease,
    roots: Option<RootList>,
}

/// Why the client gets no instance.
pub(super) enum LeaseError {
    /// The client can't have any of this server.
    Missing(Arc<str>),
    Refused(AcquireError),
}

/// What is waited for on the client's behalf.
pub(super) enum TaskOutput {
    Lease(Arc<str>, Result<Grant, LeaseError>),
    /// An instance for one call.
    PerCall(Arc<str>, Parcel, Result<Grant, LeaseError>),
    /// A turn at an instance that takes only so many calls, or those of one session, or why there was none in time.
    Turn(Arc<str>, Parcel, Result<CallPermit, String>),
    /// An instance goes.
    Left(Arc<str>, u64),
}

impl Session {
    /// Brings a request to a server, which is started if need be.
    pub(super) fn forward(&mut self, server: &Arc<str>, parcel: Parcel) {
        match self.links.get(server) {
            Some(Link::LeasedInstance(leased)) => {
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

    /// Has a request wait for an instance.
    pub(super) fn enqueue(&mut self, server: &Arc<str>, parcel: Parcel) {
        let number = self.next_number();
        let location = Location::Queue(Arc::clone(server), number);
        self.client.calls().wait_at(&parcel.id(), location);
        let links = self.links.entry(Arc::clone(server));
        let links = links.or_insert_with(|| Link::Waiting(Queue::new()));
        if let Link::LeasedInstance(_) = links {
            *links = Link::Waiting(Queue::new());
        }
        if let Link::Waiting(queue) = links {
            queue.insert(number, parcel);
        }
    }

    /// What waits for an instance does not any more, because there is one or will be none.
    pub(super) fn dequeue(&mut self, server: &Arc<str>) -> Vec<Parcel> {
        let Some(Link::Waiting(queue)) = self.links.remove(server) else { return Vec::new() };
        queue.into_values().collect()
    }

    /// Has an instance started although there is no request for it yet.
    pub(super) fn acquire(&mut self, server: &Arc<str>) {
        if self.links.contains_key(server) {
            return;
        }
        if self.server_set.sharing(server) == Sharing::Call {
            // An instance that only tells what there is serves no call.
            return self.begin_listing(server);
        }
        self.links.insert(Arc::clone(server), Link::Waiting(Queue::new()));
        self.ask_for_lease(server);
    }

    pub(super) fn leased(&self, server: &str) -> Option<&LeasedInstance> {
        match self.links.get(server) {
            Some(Link::LeasedInstance(leased)) => Some(leased),
            Some(Link::Waiting(_)) | None => None,
        }
    }

    /// Takes a request back that no server has yet. Returns false if a server has it, or it can't be taken back.
    pub(super) fn withdraw(&mut self, id: &[u8]) -> bool {
        match self.client.calls().location(id) {
            None => return false,
            Some(Location::Queue(server, number)) => {
                let Some(Link::Waiting(queue)) = self.links.get_mut(server) else { return false };
                // A handshake can't be taken back.
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

    /// Asks for a lease, for whatever is to be done with it. If the client's roots decide which instance it gets, they
    /// are waited for.
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
        // The client's roots may have changed since it was asked for.
        if self.shares(server) == Sharing::Agent && !self.client.roots().are(grant.roots.as_ref()) {
            return self.ask_for_lease(server);
        }
        let watch = self.await_leave(server, grant.lease.clone());
        // If it has ended since, what waits for it waits for the next one.
        let Some(mut leased) = self.hold_lease(server, grant) else { return };
        leased.watch = Some(watch);
        self.resubscribe(server, &leased);
        let waiting = self.dequeue(server);
        self.links.insert(Arc::clone(server), Link::LeasedInstance(leased));
        for parcel in waiting {
            self.deliver(server, parcel);
        }
        // Whoever only wanted to know what it is keeps it from nobody.
        if let Some(leased) = self.leased(server) {
            drop(leased.lease.hold());
        }
    }

    /// Brings a request to a server, and notes what it subscribes to.
    pub(super) fn deliver(&mut self, server: &Arc<str>, parcel: Parcel) {
        match parcel.frame.method() {
            b"resources/subscribe" => self.subscribe(server, parcel),
            b"resources/unsubscribe" => self.unsubscribe(server, parcel),
            _ => self.forward(server, parcel),
        }
    }

    /// The instance of a lease, as long as it is there.
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

    /// Whether the instances of a server that sessions share serve one calling session at a time.
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

    /// An instance goes. Another one is asked for only if somebody needs it.
    fn left(&mut self, server: &Arc<str>, number: u64) {
        match self.links.remove(server) {
            Some(Link::LeasedInstance(leased)) if leased.lease.instance() != number => {
                self.links.insert(Arc::clone(server), Link::LeasedInstance(leased));
            }
            Some(Link::Waiting(waiting)) => {
                self.links.insert(Arc::clone(server), Link::Waiting(waiting));
                self.ask_for_lease(server);
            }
            Some(Link::LeasedInstance(_)) | None
                if !self.client.topics(|of| *of == **server).is_empty() =>
            {
                self.acquire(server);
            }
            Some(Link::LeasedInstance(_)) | None => {}
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
            // It was not sent, so that the next instance can have it.
            Err(CallError::Closed) => {
                // Unless the client has already heard that the instance ended.
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
            // The configuration has changed since it was asked for.
            Err(AcquireError::UnknownServer(_))
                if server_set.id(server).is_none_or(|now| now != id) => {}
            lease => return lease.map_err(LeaseError::Refused),
        }
    }
}
