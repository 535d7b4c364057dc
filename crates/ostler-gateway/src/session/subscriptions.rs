//! The resources that a client wants to hear of. One subscription at the server serves all clients.

use std::sync::Arc;

use serde_json::json;

use super::Session;
use super::reach::{Held, Parcel};
use crate::client::Topic;
use crate::message::{self, code};

impl Session {
    pub(super) fn subscribe(&mut self, server: &Arc<str>, mut parcel: Parcel) {
        let Some(topic) = self.topic_of(server, &parcel) else { return };
        // Without an instance it is asked for when there is one.
        if let Some(held) = self.held(server).cloned() {
            if !self.hold(&topic, &held) {
                let id = parcel.id();
                return self.client.reply(&id, message::answer(&id, b"{}"));
            }
            parcel.subscribes = Some(topic);
        }
        self.forward(server, parcel);
    }

    pub(super) fn unsubscribe(&mut self, server: &Arc<str>, parcel: Parcel) {
        let Some(topic) = self.topic_of(server, &parcel) else { return };
        self.client.subscriptions().remove(&topic);
        let held = self.held(server).cloned();
        let was_last =
            held.is_some_and(|held| held.attachment.upstream.unsubscribe(&topic.1, &self.client));
        if was_last {
            self.forward(server, parcel);
        } else {
            let id = parcel.id();
            self.client.reply(&id, message::answer(&id, b"{}"));
        }
    }

    /// Notes that the client wants to hear of it. Whether the server has to be told.
    fn hold(&self, topic: &Topic, held: &Held) -> bool {
        // An instance that is about to go is followed by one that is held.
        let in_use = held.lease.hold().ok();
        self.client.subscriptions().insert(topic.clone(), in_use);
        held.attachment.upstream.subscribe(&topic.1, &self.client)
    }

    /// A new instance knows nothing of what the last one was asked for.
    pub(super) fn resubscribe(&mut self, server: &Arc<str>, held: &Held) {
        let upstream = &held.attachment.upstream;
        for topic in self.client.topics(server) {
            if self.hold(&topic, held) {
                upstream.confirm(&topic.1);
                let params = json!({ "uri": topic.1 }).to_string();
                upstream.request("resources/subscribe", &params);
            }
        }
    }

    /// A client that has come back wants to hear of what it wanted to hear of.
    pub(super) fn take_up(&mut self) {
        let topics: Vec<Topic> = self.client.subscriptions().keys().cloned().collect();
        for (server, _) in topics {
            self.reach_for(&server);
        }
    }

    pub(super) fn unsubscribe_all(&mut self) {
        let all = std::mem::take(&mut *self.client.subscriptions());
        for (server, uri) in all.into_keys() {
            let Some(held) = self.held(&server) else { continue };
            if held.attachment.upstream.unsubscribe(&uri, &self.client) {
                let params = json!({ "uri": uri }).to_string();
                held.attachment.upstream.request("resources/unsubscribe", &params);
            }
        }
    }

    fn topic_of(&self, server: &Arc<str>, parcel: &Parcel) -> Option<Topic> {
        let uri = message::text_param(&parcel.frame, &["uri"]);
        if uri.is_none() {
            self.client.fail(&parcel.id(), code::INVALID_PARAMS, "which resource?", None);
        }
        Some((Arc::clone(server), uri?))
    }
}
