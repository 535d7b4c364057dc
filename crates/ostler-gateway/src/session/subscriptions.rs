//! Resource subscriptions of a client. One subscription at the server serves all clients of an instance.

use std::sync::Arc;

use serde_json::json;

use super::Session;
use super::leased::LeasedInstance;
use super::request::ClientRequest;
use crate::client::{Subscription, Topic};
use crate::protocol::message::{self, code};
use crate::protocol::uris::Style;
use crate::upstream::Downstream as _;

/// Most subscriptions of one client at a time.
const MOST: usize = 1024;
/// Longest URI of a subscription, in bytes.
const LONGEST: usize = 8 << 10;

impl Session {
    pub(super) fn subscribe(&mut self, server: &Arc<str>, mut request: ClientRequest) {
        let Some((topic, style)) = self.subject_of(&request) else { return };
        let is_more = {
            let subscriptions = self.client.subscriptions();
            subscriptions.len() >= MOST && !subscriptions.contains_key(&topic)
        };
        if is_more || topic.1.len() > LONGEST {
            let text = format!("at most {MOST} subscriptions, to URIs of at most {LONGEST} bytes");
            return self.client.fail(&request.id(), code::INVALID_PARAMS, &text, None);
        }
        // Without a lease the request is queued, and comes here again once there is one.
        if let Some(leased) = self.leased(server).cloned() {
            if !self.hold(&topic, style, &leased) {
                let id = request.id();
                return self.client.reply(&id, message::answer(&id, b"{}"));
            }
            request.subscribes = Some(Box::new(topic));
        }
        self.forward(server, request);
    }

    pub(super) fn unsubscribe(&mut self, server: &Arc<str>, request: ClientRequest) {
        let Some((topic, _)) = self.subject_of(&request) else { return };
        self.client.subscriptions().remove(&topic);
        let leased = self.leased(server).cloned();
        let was_last = leased.is_some_and(|leased| {
            leased.attachment.upstream.unsubscribe(&topic.1, self.client.number())
        });
        if was_last {
            self.forward(server, request);
        } else {
            let id = request.id();
            self.client.reply(&id, message::answer(&id, b"{}"));
        }
    }

    /// Stores a subscription, and keeps the instance in use. Returns whether the server has to be asked.
    fn hold(&self, topic: &Topic, style: Style, leased: &LeasedInstance) -> bool {
        // If the instance is being retired, `resubscribe` does this with its successor.
        let in_use = leased.lease.hold().ok();
        let subscription = Subscription { style: style.clone(), in_use };
        self.client.subscriptions().insert(topic.clone(), subscription);
        leased.attachment.upstream.subscribe(&topic.1, &leased.attachment.client, style)
    }

    /// Renews the client's subscriptions at a new instance.
    pub(super) fn resubscribe(&mut self, server: &Arc<str>, leased: &LeasedInstance) {
        let upstream = &leased.attachment.upstream;
        for (topic, style) in self.client.topics(|of| *of == **server) {
            if self.hold(&topic, style, leased) {
                upstream.confirm(&topic.1);
                let params = json!({ "uri": topic.1 }).to_string();
                upstream.request("resources/subscribe", &params);
            }
        }
    }

    /// Acquires leases for the subscriptions of a client that has come back.
    pub(super) fn take_up(&mut self) {
        for ((server, _), _) in self.client.topics(|_| true) {
            self.acquire(&server);
        }
    }

    pub(super) fn unsubscribe_all(&mut self) {
        let all = std::mem::take(&mut *self.client.subscriptions());
        for (server, uri) in all.into_keys() {
            let Some(leased) = self.leased(&server) else { continue };
            if leased.attachment.upstream.unsubscribe(&uri, self.client.number()) {
                let params = json!({ "uri": uri }).to_string();
                leased.attachment.upstream.request("resources/unsubscribe", &params);
            }
        }
    }

    fn subject_of(&self, request: &ClientRequest) -> Option<(Topic, Style)> {
        if request.subject.is_none() {
            self.client.fail(&request.id(), code::INVALID_PARAMS, "which resource?", None);
        }
        request.subject.as_deref().cloned()
    }
}
