//! How a client's messages reach a server: with the lease that it has, or after it has got one.

use std::sync::Arc;

use ostler::keeper::{AcquireError, CallError, Demand, Lease, Scope, Sharing, Turn};
use tokio::task::AbortHandle;

use super::Session;
use super::gather::Gather;
use super::held::{Held, merge_levels};
use super::parcel::{Parcel, Place, Queue};
use super::turns::Pass;
use crate::menu::Menu;
use crate::protocol::message::code;
use crate::protocol::roots::RootList;
use crate::upstream::Failure;

/// Whether the client has an instance of a server.
pub(super) enum Reach {
    /// One is being asked for; these are for it.
    Waiting(Queue),
    Held(Held),
}

/// A lease, and the roots that its holder had when it was asked for.
pub(super) struct Grant {
    pub(super) lease: Lease,
    roots: Option<RootList>,
}

/// Why the client gets no instance.
pub(super) enum NoLease {
    /// The client can't have any of this server.
    Missing(Arc<str>),
    Refused(AcquireError),
}

/// What is waited for on the client's behalf.
pub(super) enum Errand {
    Lease(Arc<str>, Result<Grant, NoLease>),
    /// An instance for one call.
    Alone(Arc<str>, Parcel, Result<Grant, NoLease>),
    /// A turn at an instance that takes only so many calls, or those of one session, or why there was none in time.
    Turn(Arc<str>, Parcel, Result<Pass, String>),
    /// An instance goes.
    Left(Arc<str>, u64),
}

impl Session {
    /// Brings a request to a server, which is started if need be.
    pub(super) fn forward(&mut self, server: &Arc<str>, parcel: Parcel) {
        match self.reach.get(server) {
            Some(Reach::Held(held)) => {
                let held = held.clone();
                self.send(server, &held, parcel);
            }
            Some(Reach::Waiting(_)) => self.enqueue(server, parcel),
            None if self.menu.sharing(server) == Sharing::Call => {
                self.forward_alone(server, parcel);
            }
            None => {
                self.enqueue(server, parcel);
                self.ask_for_lease(server);
            }
        }
    }

    /// Has a request wait for an instance.
    pub(super) fn enqueue(&mut self, server: &Arc<str>, parcel: Parcel) {
        let place = |number| Place::Queue(Arc::clone(server), number);
        let number = self.waiting.insert(parcel.id(), place);
        let reach = self.reach.entry(Arc::clone(server));
        let reach = reach.or_insert_with(|| Reach::Waiting(Queue::new()));
        if let Reach::Held(_) = reach {
            *reach = Reach::Waiting(Queue::new());
        }
        if let Reach::Waiting(queue) = reach {
            queue.insert(number, parcel);
        }
    }

    /// What waits for an instance does not any more, because there is one or will be none.
    pub(super) fn dequeue(&mut self, server: &Arc<str>) -> Vec<Parcel> {
        let Some(Reach::Waiting(queue)) = self.reach.remove(server) else { return Vec::new() };
        for parcel in queue.values() {
            self.waiting.remove(&parcel.id());
        }
        queue.into_values().collect()
    }

    /// Has an instance started although there is no request for it yet.
    pub(super) fn reach_for(&mut self, server: &Arc<str>) {
        if self.reach.contains_key(server) {
            return;
        }
        if self.menu.sharing(server) == Sharing::Call {
            // An instance that only tells what there is serves no call.
            return self.begin_listing(server);
        }
        self.reach.insert(Arc::clone(server), Reach::Waiting(Queue::new()));
        self.ask_for_lease(server);
    }

    pub(super) fn held(&self, server: &str) -> Option<&Held> {
        match self.reach.get(server) {
            Some(Reach::Held(held)) => Some(held),
            Some(Reach::Waiting(_)) | None => None,
        }
    }

    /// Whether a request with this id is not answered yet.
    pub(super) fn is_in_flight(&self, id: &[u8]) -> bool {
        self.client.pending().contains(id) || self.waiting.contains(id)
    }

    /// Nobody waits for this request any more. Whether it had not been sent.
    pub(super) fn withdraw(&mut self, id: &[u8]) -> bool {
        match self.waiting.get(id) {
            None => return false,
            Some(Place::Queue(server, number)) => {
                let Some(Reach::Waiting(queue)) = self.reach.get_mut(server) else { return false };
                // A handshake can't be taken back.
                if queue.get(number).is_none_or(|one| one.frame.method() == b"initialize") {
                    return false;
                }
                queue.remove(number);
            }
            Some(Place::Gather(number)) => {
                if self.gathers.get(number).is_none_or(Gather::is_handshake) {
                    return false;
                }
                self.gathers.remove(number);
            }
            Some(Place::Errand(errand)) => errand.abort(),
        }
        self.waiting.remove(id);
        true
    }

    pub(super) fn done(&mut self, errand: Errand) {
        match errand {
            Errand::Lease(server, Ok(grant)) => self.take_over(&server, grant),
            Errand::Lease(server, Err(reason)) => self.refuse_waiting(&server, &reason),
            Errand::Alone(server, parcel, granted) => self.call_alone(&server, parcel, granted),
            Errand::Turn(server, parcel, pass) => self.take_turn(&server, parcel, pass),
            Errand::Left(server, number) => self.left(&server, number),
        }
    }

    fn ask_for_lease(&mut self, server: &Arc<str>) {
        self.for_lease(server, Errand::Lease);
    }

    /// Asks for a lease, for whatever is to be done with it. If the client's roots decide which instance it gets, they
    /// are waited for.
    pub(super) fn for_lease(
        &mut self,
        server: &Arc<str>,
        then: impl FnOnce(Arc<str>, Result<Grant, NoLease>) -> Errand + Send + 'static,
    ) -> AbortHandle {
        let (scope, server) = (Arc::clone(&self.scope), Arc::clone(server));
        let (menu, client) = (Arc::clone(&self.menu), Arc::clone(&self.client));
        let is_in_agent = self.shares(&server) == Sharing::Agent;
        if is_in_agent {
            self.ask_roots_once();
        }
        let is_undivided = self.has_one_caller(&server);
        let profile = client.profile(menu.sharing(&server));
        self.errands.spawn(async move {
            let (mut demand, roots) = if is_in_agent {
                client.demand_in_agent().await
            } else {
                (Demand::profile(profile), None)
            };
            demand.is_undivided = is_undivided;
            let lease = acquire(&scope, &menu, &server, &demand).await;
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
        let Some(mut held) = self.hold_lease(server, grant) else { return };
        held.watch = Some(watch);
        self.resubscribe(server, &held);
        let waiting = self.dequeue(server);
        self.reach.insert(Arc::clone(server), Reach::Held(held));
        for parcel in waiting {
            self.deliver(server, parcel);
        }
        // Whoever only wanted to know what it is keeps it from nobody.
        if let Some(held) = self.held(server) {
            drop(held.lease.hold());
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
    pub(super) fn hold_lease(&self, server: &Arc<str>, grant: Grant) -> Option<Held> {
        let Grant { lease, roots } = grant;
        let upstream = self.hub.upstream(lease.instance())?;
        if let Some(name) = self.catalog_name(server) {
            upstream.describe_as(&name, &self.hub.catalog);
        }
        if let Some(roots) = &roots {
            upstream.settle_roots(roots);
        }
        if self.has_one_caller(server) {
            upstream.serve_one_caller();
        }
        let attachment = upstream.attach(Arc::clone(&self.client) as _);
        let limit = self.menu.call_limit(server);
        let tools = self.menu.tools(server);
        let client = Arc::clone(&self.client);
        let held = Held { lease, client, attachment, limit, tools, watch: None };
        merge_levels(&held);
        Some(held)
    }

    /// Whether the instances of a server that sessions share serve one calling session at a time.
    fn has_one_caller(&self, server: &str) -> bool {
        let is_shared = matches!(self.shares(server), Sharing::All | Sharing::Agent);
        let name = self.catalog_name(server).filter(|_| is_shared);
        name.is_some_and(|name| self.hub.catalog.has_one_caller(&name.subject))
    }

    fn await_leave(&mut self, server: &Arc<str>, lease: Lease) -> AbortHandle {
        let (server, number) = (Arc::clone(server), lease.instance());
        self.errands.spawn(async move {
            lease.left().await;
            Errand::Left(server, number)
        })
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
            Some(Reach::Held(_)) | None if !self.client.topics(|of| *of == **server).is_empty() => {
                self.reach_for(server);
            }
            Some(Reach::Held(_)) | None => {}
        }
    }

    pub(super) fn refuse_waiting(&mut self, server: &Arc<str>, error: &NoLease) {
        if let Some(Reach::Waiting(_)) = self.reach.get(server) {
            let waiting = self.dequeue(server);
            self.refuse(server, waiting, error);
        }
    }

    pub(super) fn refuse(
        &mut self,
        server: &Arc<str>,
        parcels: impl IntoIterator<Item = Parcel>,
        error: &NoLease,
    ) {
        let failure = match error {
            NoLease::Missing(why) => {
                Failure { reason: "unavailable", text: format!("{server}: {why}") }
            }
            NoLease::Refused(error) => Failure::from(error),
        };
        for parcel in parcels {
            self.client.fail(&parcel.id(), code::INTERNAL, &failure.text, Some(failure.reason));
        }
        self.failures.insert(Arc::clone(server), failure);
    }

    fn send(&mut self, server: &Arc<str>, held: &Held, parcel: Parcel) {
        if parcel.frame.method() == b"initialize" {
            return self.welcome(&parcel.id(), server, held.attachment.upstream.initialize());
        }
        self.send_in_turn(server, held, parcel);
    }

    pub(super) fn send_now(&mut self, server: &Arc<str>, held: &Held, parcel: Parcel, turn: Turn) {
        match held.send(&parcel, turn) {
            Ok(()) => {}
            // It was not sent, so that the next instance can have it.
            Err(CallError::Closed) => {
                self.enqueue(server, parcel);
                if held.lease.ending().is_some() {
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
    menu: &Menu,
    server: &str,
    demand: &Demand,
) -> Result<Lease, NoLease> {
    loop {
        if let Some(reason) = menu.missing(server) {
            return Err(NoLease::Missing(reason));
        }
        let unknown = || AcquireError::UnknownServer(server.to_owned());
        let id = menu.id(server).ok_or_else(|| NoLease::Refused(unknown()))?;
        match scope.acquire_with(&id, demand).await {
            // The configuration has changed since it was asked for.
            Err(AcquireError::UnknownServer(_)) if menu.id(server).is_none_or(|now| now != id) => {}
            lease => return lease.map_err(NoLease::Refused),
        }
    }
}
