//! The resources that a client wants to hear of. One subscription at the server serves all clients.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use ostler::Frame;
use ostler::keeper::Use;

use super::Session;
use super::reach::{Held, Parcel};
use crate::message::{self, code};

/// By server and resource. As long as there is one the instance is in use.
#[derive(Default)]
pub(super) struct Subscriptions(HashMap<(Arc<str>, String), Option<Use>>);

impl Subscriptions {
    pub(super) fn has_any(&self, server: &str) -> bool {
        self.0.keys().any(|(of, _)| **of == *server)
    }

    fn of(&self, server: &str) -> Vec<String> {
        let own = self.0.keys().filter(|(of, _)| **of == *server);
        own.map(|(_, uri)| uri.clone()).collect()
    }
}

impl Session {
    /// `uri` is the server's own; `edits` turn the client's into it.
    pub(super) fn subscribe(&mut self, server: &Arc<str>, uri: &str, parcel: Parcel) {
        let id = parcel.frame.bytes().slice(parcel.frame.id_edges());
        self.subscriptions.0.entry((Arc::clone(server), uri.to_owned())).or_insert(None);
        let Some(held) = self.held(server).cloned() else {
            // Asked for by `resubscribe` as soon as there is an instance.
            self.client.reply(&id, message::answer(&id, b"{}"));
            return self.reach_for(server);
        };
        let is_first = self.hold(server, uri, &held);
        self.pass(server, &id, parcel, is_first);
    }

    pub(super) fn unsubscribe(&mut self, server: &Arc<str>, uri: &str, parcel: Parcel) {
        let id = parcel.frame.bytes().slice(parcel.frame.id_edges());
        self.subscriptions.0.remove(&(Arc::clone(server), uri.to_owned()));
        let held = self.held(server).cloned();
        let was_last =
            held.is_some_and(|held| held.attachment.upstream.unsubscribe(uri, &self.client));
        self.pass(server, &id, parcel, was_last);
    }

    /// The server is asked only if it makes a difference to it.
    fn pass(&mut self, server: &Arc<str>, id: &Bytes, parcel: Parcel, matters: bool) {
        if matters {
            self.forward(server, parcel);
        } else {
            self.client.reply(id, message::answer(id, b"{}"));
        }
    }

    fn hold(&mut self, server: &Arc<str>, uri: &str, held: &Held) -> bool {
        let name = (Arc::clone(server), uri.to_owned());
        // An instance that is about to go is followed by one that is held.
        self.subscriptions.0.insert(name, held.lease.hold().ok());
        held.attachment.upstream.subscribe(uri, &self.client)
    }

    /// A new instance knows nothing of what the last one was asked for.
    pub(super) fn resubscribe(&mut self, server: &Arc<str>, held: &Held) {
        for uri in self.subscriptions.of(server) {
            if self.hold(server, &uri, held) {
                let params = serde_json::json!({ "uri": uri }).to_string();
                held.attachment.upstream.request("resources/subscribe", &params);
            }
        }
    }

    pub(super) fn unsubscribe_all(&mut self) {
        let all = std::mem::take(&mut self.subscriptions.0);
        for ((server, uri), _held) in all {
            let Some(held) = self.held(&server) else { continue };
            if held.attachment.upstream.unsubscribe(&uri, &self.client) {
                let params = serde_json::json!({ "uri": uri }).to_string();
                held.attachment.upstream.request("resources/unsubscribe", &params);
            }
        }
    }

    pub(super) fn uri_of(&self, frame: &Frame) -> Option<String> {
        let uri = message::text_param(frame, &["uri"]);
        if uri.is_none() {
            self.client.fail(frame.id(), code::INVALID_PARAMS, "which resource?", None);
        }
        uri
    }
}
