//! What a server asks its clients.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ostler::Frame;

use super::Upstream;
use crate::client::Client;
use crate::gateway::lock;
use crate::in_flight::Attachment;
use crate::message::{self, code};
use crate::transport::{About, Weight};

/// For a client to answer what a server asks.
const ASK_LIMIT: Duration = Duration::from_mins(5);
/// Clients that are sent elsewhere by one server at one time.
const MOST_ELICITATIONS: usize = 1024;

impl Upstream {
    pub(super) fn ask(self: &Arc<Self>, request: &Frame) {
        let Some(owner) = self.owner() else {
            let text = "nobody is known whom this request is for";
            return self.say(&message::error(request.id(), code::INTERNAL, text, Some("no_owner")));
        };
        let capabilities = owner.client.hello().map(|hello| hello.capabilities.clone());
        if let Err(code) = can_answer(request, &capabilities.unwrap_or_default()) {
            let text = "the client can't do that";
            return self.say(&message::error(request.id(), code, text, None));
        }
        if let Some(id) = message::text_param(request, &["elicitationId"]) {
            self.expect_completion(id, &owner.client);
        }
        owner.client.ask(request, self, ASK_LIMIT);
    }

    /// Whom a request of the server is for: its only user, or the only one that waits for it.
    pub(super) fn owner(&self) -> Option<Arc<Attachment>> {
        self.only_one().or_else(|| {
            let mut busy = self.attached();
            busy.retain(|one| one.calls.load(Ordering::Relaxed) > 0);
            if busy.len() == 1 { busy.pop() } else { None }
        })
    }

    pub(super) fn only_one(&self) -> Option<Arc<Attachment>> {
        let mut attached = self.attached();
        if self.is_exclusive() || attached.len() == 1 { attached.pop() } else { None }
    }

    /// The client that is to hear when what it was asked to do elsewhere is done.
    pub(crate) fn expect_completion(&self, elicitation: String, client: &Arc<Client>) {
        let mut all = lock(&self.elicitations);
        all.retain(|_, client| client.strong_count() > 0);
        if all.len() < MOST_ELICITATIONS {
            all.insert(elicitation, Arc::downgrade(client));
        }
    }

    pub(super) fn pass_completion(&self, message: &Frame) {
        let Some(id) = message::text_param(message, &["elicitationId"]) else { return };
        let client = lock(&self.elicitations).remove(&id).and_then(|client| client.upgrade());
        if let Some(client) = client {
            client.send(message.line(), About::Nothing, Weight::Notice);
        }
    }

    /// The server no longer wants the answer to what it has asked.
    pub(super) fn pass_cancel(self: &Arc<Self>, message: &Frame) {
        let Some(edges) = message::param(message, &["requestId"]) else { return };
        let id = message.bytes().slice(edges.clone());
        for attachment in self.attached() {
            let mut asked = attachment.client.asked();
            let found = asked.iter().find(|(_, a)| a.id == id && Arc::ptr_eq(&a.upstream, self));
            let Some(number) = found.map(|(number, _)| *number) else { continue };
            asked.remove(&number);
            drop(asked);
            let line = message::splice(message.bytes(), vec![(edges, message::number(number))]);
            return attachment.client.send_about(self, line, Weight::Needed);
        }
    }
}

/// Whether a client with these capabilities can be asked this; else what the server is answered.
fn can_answer(request: &Frame, capabilities: &[u8]) -> Result<(), i32> {
    let can = |path: &[&str]| message::find(capabilities, 0..capabilities.len(), path).is_some();
    let (capability, is_fit) = match request.method() {
        b"roots/list" => ("roots", true),
        b"sampling/createMessage" => {
            let wants_tools = message::param(request, &["tools"]).is_some();
            ("sampling", !wants_tools || can(&["sampling", "tools"]))
        }
        b"elicitation/create" => {
            let url = can(&["elicitation", "url"]);
            // Who names no mode knows forms only.
            let form = can(&["elicitation", "form"]) || !url;
            let mode = message::text_param(request, &["mode"]);
            ("elicitation", if mode.as_deref() == Some("url") { url } else { form })
        }
        _ => return Ok(()),
    };
    if !can(&[capability]) {
        return Err(code::METHOD_NOT_FOUND);
    }
    if is_fit { Ok(()) } else { Err(code::INVALID_PARAMS) }
}
