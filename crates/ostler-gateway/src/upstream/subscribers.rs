//! Who wants to hear of which resource of a server.

use std::sync::{Arc, Weak};

use ostler::Frame;

use super::Upstream;
use crate::client::Client;
use crate::gateway::lock;
use crate::message;
use crate::transport::{About, Weight};

/// Who wants to hear of one resource.
#[derive(Default)]
pub(super) struct Subscribers {
    clients: Vec<Weak<Client>>,
    /// The server has agreed.
    is_confirmed: bool,
}

impl Upstream {
    /// Notes that a client wants to hear of a resource. Whether the server has to be asked: it has not
    /// agreed yet.
    pub(crate) fn subscribe(&self, uri: &str, client: &Arc<Client>) -> bool {
        let mut subscribers = lock(&self.subscribers);
        let own = subscribers.entry(uri.to_owned()).or_default();
        own.clients.retain(|one| one.upgrade().is_some_and(|one| one.number != client.number));
        own.clients.push(Arc::downgrade(client));
        !own.is_confirmed
    }

    /// The server has agreed.
    pub(crate) fn confirm(&self, uri: &str) {
        if let Some(own) = lock(&self.subscribers).get_mut(uri) {
            own.is_confirmed = true;
        }
    }

    pub(crate) fn is_confirmed(&self, uri: &str) -> bool {
        lock(&self.subscribers).get(uri).is_some_and(|own| own.is_confirmed)
    }

    /// A client does not want to hear of a resource any more. Whether it was the last one.
    pub(crate) fn unsubscribe(&self, uri: &str, client: &Client) -> bool {
        let mut subscribers = lock(&self.subscribers);
        let Some(own) = subscribers.get_mut(uri) else { return false };
        own.clients.retain(|one| one.upgrade().is_some_and(|one| one.number != client.number));
        let was_last = own.clients.is_empty();
        if was_last {
            subscribers.remove(uri);
        }
        was_last
    }

    pub(super) fn pass_update(&self, message: &Frame) {
        let Some(uri) = message::text_param(message, &["uri"]) else { return };
        let subscribers = lock(&self.subscribers);
        let exact = subscribers.get(&uri).map(|own| vec![own]);
        // It may name a part of what was subscribed to.
        let wider = || {
            let all = subscribers.iter().filter(|(wide, _)| uri.starts_with(wide.as_str()));
            all.map(|(_, own)| own).collect::<Vec<_>>()
        };
        let found = exact.unwrap_or_else(wider);
        let found = if found.is_empty() { subscribers.values().collect() } else { found };
        let mut told = Vec::new();
        let clients = found.into_iter().flat_map(|own| &own.clients);
        for client in clients.filter_map(Weak::upgrade) {
            if !told.contains(&client.number) {
                told.push(client.number);
                client.send(message.line(), About::Nothing, Weight::Notice);
            }
        }
    }
}
