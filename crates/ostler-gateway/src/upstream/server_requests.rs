//! Requests of a server to its clients, such as sampling, elicitation and roots.
//!
//! A request goes to the owner of the instance: its only client, or the only one with calls in flight. If the owner
//! has the capability, the request is forwarded under an id of the gateway, and recorded twice: as `OpenRequest` at
//! the instance, by the server's id, and as `ServerRequest` at the client, by the gateway's id. The client's
//! response, the time limit, a cancellation or the end of the session closes both records.
//!
//! If several sessions have calls with the instance, the request is refused, and from then on the server serves one
//! calling session at a time. The gateway itself answers `roots/list` of a shared instance.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use ostler::Frame;

use super::{Attachment, Change, Downstream, Upstream};
use crate::mutex::lock;
use crate::protocol::message::{self, code};
use crate::transport::Priority;

/// Time limit for a client to answer a request of a server.
pub(crate) const SERVER_REQUEST_LIMIT: Duration = Duration::from_mins(5);
/// Most unanswered requests of one instance.
const MOST_OPEN_REQUESTS: usize = 256;
/// Most open URL elicitations of one instance.
const MOST_ELICITATIONS: usize = 1024;

/// Record of a forwarded request at its instance.
#[derive(Debug)]
pub(super) struct OpenRequest {
    of: Weak<Attachment>,
    /// Id under which the client got the request.
    number: u64,
}

/// Record of a forwarded request at the client that has to answer it.
#[derive(Debug)]
pub(crate) struct ServerRequest {
    upstream: Arc<Upstream>,
    /// The server's id of the request.
    pub(crate) id: Bytes,
    pub(crate) until: Instant,
}

impl ServerRequest {
    /// Closes the request, and sends the response to the server.
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

    /// Refuses a request that could be for several sessions, after the server was limited to one calling session at a
    /// time.
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

    /// Removes the record of a request that was answered.
    pub(crate) fn close_request(&self, id: &[u8]) {
        lock(&self.open_requests).remove(id);
    }

    /// The client that a request of the server is for: the only one, or the only one with calls in flight.
    pub(super) fn owner(&self) -> Option<Arc<Attachment>> {
        self.only_one().or_else(|| lock(&self.attachments).only(Attachment::is_busy))
    }

    pub(super) fn only_one(&self) -> Option<Arc<Attachment>> {
        let attachments = lock(&self.attachments);
        if self.is_exclusive() { attachments.last() } else { attachments.only(|_| true) }
    }

    /// Registers the client that is notified when a URL elicitation is complete.
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

    /// Handles the cancellation of a request by the server, and forwards it to the client.
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

/// Whether a client with these capabilities can answer the request; if not, the error code for the server.
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
            // A client that names no mode supports forms only.
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
