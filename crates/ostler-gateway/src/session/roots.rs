//! The client's roots: when the session asks for them, and how they decide which instances it shares.

use std::sync::Arc;

use ostler::Frame;
use ostler::keeper::{Demand, Sharing};
use serde_json::json;

use super::Session;
use super::snapshot::ServerView;
use crate::upstream::Downstream as _;

impl Session {
    /// Asks an initialized client for its roots, if it shares a server with other clients of its agent.
    pub(super) fn ask_roots_if_shared(&mut self) {
        let is_in_agent = |view: &Arc<ServerView>| view.sharing == Sharing::Agent;
        if self.servers.now().iter().any(|(_, view)| is_in_agent(view)) {
            self.ask_roots_once();
        }
    }

    /// Asks a client with the roots capability for its roots, unless it was asked before.
    pub(super) fn ask_roots_once(&self) {
        if self.client.has_roots() && !self.client.roots().is_asked() {
            self.client.ask_roots(self.limits.roots);
        }
    }

    /// Handles `notifications/roots/list_changed`. Exclusive instances get the notification. If roots decide which
    /// instances the client shares, the session asks for them again and releases those leases, so that the next
    /// request acquires a new one. Calls in flight stay where they are.
    pub(super) fn change_roots(&mut self, frame: &Frame) {
        self.pass_on(frame);
        if !self.client.has_roots() || !self.client.roots().is_asked() {
            return;
        }
        self.client.ask_roots(self.limits.roots);
        let servers = Arc::clone(self.servers.now());
        for (server, _) in servers.iter().filter(|(_, view)| view.sharing == Sharing::Agent) {
            let leased = self.leased(server);
            if leased.is_some_and(|leased| !leased.attachment.upstream.is_exclusive()) {
                self.let_go(server);
            }
        }
    }

    /// Releases the lease on a server. If the client has subscriptions there, acquires another lease, which renews
    /// them.
    pub(super) fn let_go(&mut self, server: &Arc<str>) {
        let Some(leased) = self.link(server).release() else { return };
        leased.unwatch();
        let topics = self.client.topics(|of| *of == **server);
        for ((_, uri), _) in &topics {
            let upstream = &leased.attachment.upstream;
            if upstream.unsubscribe(uri, self.client.number()) {
                upstream.request("resources/unsubscribe", &json!({ "uri": uri }).to_string());
            }
        }
        drop(leased);
        if !topics.is_empty() {
            self.acquire(server);
        }
    }

    /// The client's demand, as far as it is known now. Listings do not wait for the roots, which do not change what a
    /// server offers.
    pub(super) fn demand_now(&mut self, server: &str) -> Demand {
        let is_in_agent = self.servers.now().sharing(server) == Sharing::Agent;
        let roots = self.client.roots().told().filter(|_| is_in_agent);
        match (roots, self.client.initialize()) {
            (Some(roots), Some(initialize)) => initialize.demand_with(&roots),
            _ => Demand::profile(self.client.profile(self.servers.set.sharing(server))),
        }
    }
}
