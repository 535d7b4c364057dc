//! What a server asks its clients.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use ostler::Frame;

use super::{Attachment, Change, Downstream, Upstream};
use crate::mutex::lock;
use crate::protocol::message::{self, code};
use crate::transport::Priority;

/// For a client to answer what a server asks.
pub(crate) const SERVER_REQUEST_LIMIT: Duration = Duration::from_mins(5);
/// What one server may ask before it is answered.
const MOST_OPEN_REQUESTS: usize = 256;
/// Clients that are sent elsewhere by one server at one time.
const MOST_ELICITATIONS: usize = 1024;

/// What a server has asked a client.
#[derive(Debug)]
pub(super) struct OpenRequest {
    of: Weak<Attachment>,
    /// Under which the client was asked.
    number: u64,
}

/// A request of a server that a client has to answer.
#[derive(Debug)]
pub(crate) struct ServerRequest {
    upstream: Arc<Upstream>,
    /// The server's own id.
    pub(crate) id: Bytes,
    pub(crate) until: Instant,
}

impl ServerRequest {
    /// Answers the server.
    pub(crate) fn answer(self, line: &[u8]) {
        self.upstream.close_request(&self.id);
        self.upstream.say(line);
    }

    pub(crate) fn fail(self, text: &str) {
        let line = message::error(&self.id, code::INTERNAL, text, None);
        self.answer(&line);
    }
}

impl Upstream {
    pub(super) fn ask(self: &Arc<Self>, request: &Frame) -> Option<Change> {
        if request.method() == b"roots/list" && !self.is_exclusive() {
            self.tell_roots(request);
            return None;
        }
        if let Some(owner) = self.owner() {
            self.ask_owner(request, &owner);
        } else if lock(&self.attachments).any(Attachment::is_busy) {
            return Some(Change::NoOwner);
        } else {
            let text = "no session has a call with this server, so its request has no owner";
            self.refuse_unowned(request, text);
        }
        None
    }

    /// Answers a request that could be for several sessions, after it was noted that this must not happen again.
    pub(crate) fn refuse_contended(&self, request: &Frame) {
        let text = "several sessions have calls with this server, so its request has no single owner; \
                    from now on it serves one session at a time";
        self.refuse_unowned(request, text);
    }

    fn refuse_unowned(&self, request: &Frame, text: &str) {
        self.say(&message::error(request.id(), code::INTERNAL, text, Some("no_owner")));
    }

    fn ask_owner(self: &Arc<Self>, request: &Frame, owner: &Arc<Attachment>) {
        if let Err(code) = can_answer(request, &owner.client.capabilities()) {
            return self.refuse(request, code, "the client can't do that");
        }
        let mut open_requests = lock(&self.open_requests);
        if open_requests.len() >= MOST_OPEN_REQUESTS {
            open_requests.retain(|_, open_request| open_request.of.strong_count() > 0);
        }
        let id = message::request_id(request);
        if open_requests.len() >= MOST_OPEN_REQUESTS || open_requests.contains_key(&id) {
            drop(open_requests);
            let text = format!(
                "a request with this id, or {MOST_OPEN_REQUESTS} others, are not answered yet"
            );
            return self.refuse(request, code::INVALID_REQUEST, &text);
        }
        let until = Instant::now() + SERVER_REQUEST_LIMIT;
        let asked = ServerRequest { upstream: Arc::clone(self), id: id.clone(), until };
        let number = owner.client.expect_answer(asked);
        open_requests.insert(id, OpenRequest { of: Arc::downgrade(owner), number });
        drop(open_requests);
        if let Some(id) = message::text_param(request, &["elicitationId"]) {
            self.expect_completion(id, &owner.client);
        }
        let edits = vec![(request.id_edges(), message::number(number))];
        owner.send(message::splice(request.bytes(), edits), Priority::Required);
    }

    /// A question has been answered, by whomever.
    pub(crate) fn close_request(&self, id: &[u8]) {
        lock(&self.open_requests).remove(id);
    }

    /// Whom a request of the server is for: its only user, or the only one that waits for it.
    pub(super) fn owner(&self) -> Option<Arc<Attachment>> {
        self.only_one().or_else(|| lock(&self.attachments).only(Attachment::is_busy))
    }

    pub(super) fn only_one(&self) -> Option<Arc<Attachment>> {
        let attachments = lock(&self.attachments);
        if self.is_exclusive() { attachments.last() } else { attachments.only(|_| true) }
    }

    /// The client that is to hear when what it was asked to do elsewhere is done.
    pub(crate) fn expect_completion(&self, elicitation: String, client: &Arc<dyn Downstream>) {
        let mut all = lock(&self.elicitations);
        if all.len() >= MOST_ELICITATIONS {
            all.retain(|_, client| client.strong_count() > 0);
        }
        if all.len() < MOST_ELICITATIONS {
            all.insert(elicitation, Arc::downgrade(client));
        }
    }

    pub(super) fn pass_completion(&self, message: &Frame) {
        let Some(id) = message::text_param(message, &["elicitationId"]) else { return };
        let client = lock(&self.elicitations).remove(&id).and_then(|client| client.upgrade());
        if let Some(client) = client {
            client.send(message.line(), None, Priority::Droppable);
        }
    }

    /// The server no longer wants the answer to what it has asked.
    pub(super) fn pass_cancel(&self, message: &Frame) {
        let Some(edges) = message::param(message, &["requestId"]) else { return };
        let id = message::same_id(message.bytes().slice(edges.clone()));
        self.forget_roots_request(&id);
        let Some(open_request) = lock(&self.open_requests).remove(&id) else { return };
        let Some(owner) = open_request.of.upgrade() else { return };
        if owner.client.withdraw_request(open_request.number) {
            let edits = vec![(edges, message::number(open_request.number))];
            owner.send(message::splice(message.bytes(), edits), Priority::Required);
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
