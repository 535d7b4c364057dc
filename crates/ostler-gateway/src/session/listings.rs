//! Lists that the catalog does not have yet: begins listings, or acquires the session's own instance.

use std::sync::Arc;

use bytes::Bytes;

use super::Session;
use crate::catalog::Name;
use crate::upstream::{Attempt, StartFailure};

impl Session {
    /// Begins a listing of each server whose list is unknown, or known only for clients with another profile.
    pub(super) fn begin_listings(&mut self, method: &str) {
        let servers = Arc::clone(self.servers.now());
        for (server, view) in servers.iter() {
            if view.needs_listing(method) || view.is_of_others() && !self.was_tried(server) {
                self.begin_listing(server);
            }
        }
    }

    /// Begins a listing, which starts an instance to learn what its server offers. The gateway owns the listing, so
    /// the result is kept even if this client leaves.
    pub(super) fn begin_listing(&mut self, server: &str) {
        let Some(name) = self.catalog_name(server) else { return };
        let Some(view) = self.servers.now().get(server).cloned() else { return };
        let Some(summary) = view.summary() else { return };
        let demand = self.demand_now(server);
        let listings = &self.upstreams.listings;
        listings.begin(name, || self.scope.acquire_to_list(&summary.id, &demand));
    }

    /// Begins one listing for clients like this one, if the catalog has the server only for another profile.
    pub(super) fn refresh(&mut self, server: &str) {
        let is_of_others = self.servers.now().get(server).is_some_and(|view| view.is_of_others());
        if is_of_others && !self.was_tried(server) {
            self.begin_listing(server);
        }
    }

    /// Acquires the session's own instances of servers whose list the catalog never keeps. A server without the
    /// capability is not started.
    pub(super) fn acquire_for_own_lists(&mut self, method: &str) {
        let servers = Arc::clone(self.servers.now());
        for (server, view) in servers.iter() {
            let is_own = view.is_own_list(method) && !view.is_per_call();
            if is_own && view.found.is_some() && view.whole_list(method).is_none() {
                self.link(server).forget_failure();
                self.acquire(server);
            }
        }
    }

    /// Whether the session's own instance still has to answer a list that the catalog never keeps.
    pub(super) fn is_asked_for_own_list(&mut self, server: &str, method: &str) -> bool {
        let is_own = self.servers.now().get(server).is_some_and(|view| view.is_own_list(method));
        let Some(link) = self.links.get(server).filter(|link| is_own && link.is_active()) else {
            return false;
        };
        let leased = link.leased();
        leased.is_none_or(|leased| leased.attachment.upstream.lists().contains(&method))
    }

    /// Result of the server's own handshake, if it is known.
    pub(super) fn initialize_result(&mut self, server: &str) -> Option<Bytes> {
        let known = self.servers.now().get(server)?.known()?;
        (!known.initialize.is_empty()).then(|| known.initialize.clone())
    }

    /// Name of the catalog entry for a server as clients like this one see it.
    pub(super) fn catalog_name(&mut self, server: &str) -> Option<Name> {
        let view = Arc::clone(self.servers.now().get(server)?);
        self.servers.catalog_name(&view.availability)
    }

    fn was_tried(&mut self, server: &str) -> bool {
        self.listing_of(server).is_some()
    }

    pub(super) fn listing_of(&mut self, server: &str) -> Option<Attempt> {
        let name = self.catalog_name(server)?;
        self.upstreams.listings.attempt(&name)
    }

    /// Reason why a server's lists are unknown, if there is one.
    pub(super) fn why_unlisted(&mut self, server: &str) -> Option<StartFailure> {
        let view = self.servers.now().get(server);
        if let Some(Err(why)) = view.map(|view| &view.availability) {
            return Some(StartFailure::unavailable(server, why));
        }
        match self.listing_of(server) {
            Some(Attempt::Failed(failure)) => Some(failure),
            Some(Attempt::Running { .. }) | None => None,
        }
    }
}
