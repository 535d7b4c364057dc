//! Subscribers of the resources of an instance.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};

use ostler::Frame;
use serde_json::Value;

use super::{Downstream, Upstream};
use crate::mutex::lock;
use crate::protocol::message;
use crate::protocol::uris::Style;
use crate::transport::Priority;

/// Subscribers of one resource.
#[derive(Default)]
pub(super) struct Subscribers {
    /// Clients by their numbers, with their forms of the URI.
    clients: HashMap<u64, (Weak<dyn Downstream>, Style)>,
    /// Whether the server has confirmed the subscription.
    is_confirmed: bool,
}

impl Upstream {
    /// Adds a subscriber, with its form of the URI. Returns whether the server has to be asked, because it has not
    /// confirmed the subscription yet.
    pub(crate) fn subscribe(&self, uri: &str, client: &Arc<dyn Downstream>, style: Style) -> bool {
        let mut subscribers = lock(&self.subscribers);
        let own = subscribers.entry(uri.to_owned()).or_default();
        own.clients.insert(client.number(), (Arc::downgrade(client), style));
        !own.is_confirmed
    }

    /// Marks the subscription as confirmed by the server.
    pub(crate) fn confirm(&self, uri: &str) {
        if let Some(own) = lock(&self.subscribers).get_mut(uri) {
            own.is_confirmed = true;
        }
    }

    pub(crate) fn is_confirmed(&self, uri: &str) -> bool {
        lock(&self.subscribers).get(uri).is_some_and(|own| own.is_confirmed)
    }

    /// Removes the subscriber with this number. Returns whether it was the last one.
    pub(crate) fn unsubscribe(&self, uri: &str, client: u64) -> bool {
        let mut subscribers = lock(&self.subscribers);
        let Some(own) = subscribers.get_mut(uri) else { return false };
        own.clients.remove(&client);
        let was_last = own.clients.is_empty();
        if was_last {
            subscribers.remove(uri);
        }
        was_last
    }

    pub(super) fn pass_update(&self, message: &Frame) {
        let Some(edges) = message::param(message, &["uri"]) else { return };
        let Ok(uri) = serde_json::from_slice::<String>(&message.bytes()[edges.clone()]) else {
            return;
        };
        let subscribers = lock(&self.subscribers);
        let exact = subscribers.get(&uri).map(|own| vec![own]);
        // The update may name a part of the resource that was subscribed to.
        let wider = || {
            let all = subscribers.iter().filter(|(wide, _)| uri.starts_with(wide.as_str()));
            all.map(|(_, own)| own).collect::<Vec<_>>()
        };
        let found = exact.unwrap_or_else(wider);
        let is_own = !found.is_empty();
        let found = if is_own { found } else { subscribers.values().collect() };
        let mut told = HashSet::new();
        for (number, (client, style)) in found.into_iter().flat_map(|own| &own.clients) {
            let Some(client) = client.upgrade().filter(|_| told.insert(*number)) else { continue };
            let ours = if is_own { style.own(&uri) } else { style.foreign(&uri) };
            let ours = ours.map(|uri| (edges.clone(), Value::from(uri).to_string().into()));
            let line = message::splice(message.bytes(), ours.into_iter().collect());
            client.send(line, None, Priority::Droppable);
        }
    }
}
