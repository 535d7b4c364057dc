//! Dispatch of the client's messages: requests, notifications, responses and batches.

use std::sync::Arc;

use bytes::Bytes;
use ostler::{Frame, Kind};

use super::aggregate::Wants;
use super::leased::merge_levels;
use super::links::Link;
use super::request::ClientRequest;
use super::servers::{Decision, Refusal, Target};
use super::snapshot::ServerView;
use super::{Session, cancel, version_of};
use crate::protocol::batch;
use crate::protocol::log_level;
use crate::protocol::message::{self, code};
use crate::protocol::params;
use crate::quota::{Charge, QuotaExceeded};
use crate::route::Route;
use crate::transport::{ClientMessage, ReturnAddress};

/// Charge for the bytes of a message, or the error if too many bytes wait already.
type Counted = Result<Arc<Charge>, QuotaExceeded>;

const IN_FLIGHT: &str = "a request with this id is in flight already";

impl Session {
    pub(super) fn receive(&mut self, incoming: ClientMessage, mut address: ReturnAddress) {
        let address = &mut address;
        match incoming {
            ClientMessage::Message(frame, charge) => self.single(frame, &Ok(charge), address),
            ClientMessage::Batch(frames, charge) => self.batch(frames, &Ok(charge), address),
            ClientMessage::Line(line) if batch::is_batch(&line) => {
                match batch::parse(&line, version_of(&self.client)) {
                    Ok(frames) => self.batch(frames, &self.charge(&line), address),
                    Err(error) => {
                        let code = error.code();
                        self.client.fail(b"", code, &error.to_string(), None);
                    }
                }
            }
            ClientMessage::Line(line) => match Frame::parse(line.clone()) {
                Ok(frame) => self.single(frame, &self.charge(&line), address),
                Err(error) => {
                    let is_json = serde_json::from_slice::<serde::de::IgnoredAny>(&line).is_ok();
                    let code = if is_json { code::INVALID_REQUEST } else { code::PARSE };
                    self.client.fail(b"", code, &error.to_string(), None);
                }
            },
        }
    }

    /// Charges the bytes of a message for as long as one of its requests waits.
    fn charge(&self, line: &Bytes) -> Counted {
        self.budget.charge(line.len()).map(Arc::new)
    }

    /// Handles a message that is not part of a batch.
    fn single(&mut self, frame: Frame, counted: &Counted, address: &mut ReturnAddress) {
        match frame.kind() {
            Kind::Request => {}
            Kind::Notification => return self.notification(&frame),
            Kind::Answer => return self.answer(&frame),
        }
        let id = id_of(&frame, counted);
        if self.client.calls().open(id.clone(), address) {
            return self.request(frame, &id, counted);
        }
        let line = message::error(&id, code::INVALID_REQUEST, IN_FLIGHT, None);
        self.client.refuse(address, 1, line);
    }

    /// Handles the messages of a JSON-RPC batch.
    fn batch(&mut self, frames: Vec<Frame>, counted: &Counted, address: &mut ReturnAddress) {
        let ids: Vec<Bytes> = batch::requests(&frames).map(|one| id_of(one, counted)).collect();
        let count = ids.len();
        if !self.client.calls().open_batch(ids, address) {
            let line = message::error(b"", code::INVALID_REQUEST, IN_FLIGHT, None);
            return self.client.refuse(address, count, line);
        }
        for frame in frames {
            match frame.kind() {
                Kind::Request => {
                    let id = id_of(&frame, counted);
                    self.request(frame, &id, counted);
                }
                Kind::Notification => self.notification(&frame),
                Kind::Answer => self.answer(&frame),
            }
        }
    }

    /// Handles a request whose call is open.
    fn request(&mut self, frame: Frame, id: &Bytes, counted: &Counted) {
        let charge = match counted {
            Ok(charge) => Arc::clone(charge),
            Err(denied) => {
                return self.client.fail(id, code::INTERNAL, &denied.to_string(), Some("busy"));
            }
        };
        let refuse = |text: &str| self.client.fail(id, code::INVALID_REQUEST, text, None);
        if !message::is_whole(id) {
            return refuse("an id is a text or a whole number");
        }
        if message::is_misnamed(&frame) {
            return refuse("a notification has no id");
        }
        let request = match ClientRequest::new(id.clone(), frame, charge) {
            Ok(request) => request,
            Err(unclear) => {
                let text = unclear.to_string();
                return self.client.fail(id, code::INVALID_PARAMS, &text, None);
            }
        };
        match request.frame.method() {
            b"ping" => self.client.reply(id, message::answer(id, b"{}")),
            b"initialize" => self.initialize(request),
            _ if self.client.initialize().is_none() => refuse("the handshake comes first"),
            b"logging/setLevel" => self.set_level(&request.frame, id),
            _ => {
                let decision = self.servers.decide(&request);
                self.carry_out_decision(decision, request);
            }
        }
    }

    pub(super) fn carry_out_decision(&mut self, decision: Decision, mut request: ClientRequest) {
        match decision {
            Decision::Refuse(Refusal { code, text, reason }) => {
                self.client.fail(&request.id(), code, &text, reason);
            }
            Decision::Forward(Target { server, edit, subject }) => {
                request.edits.extend(edit);
                request.subject = subject;
                let is_one_of_all = self.servers.route == Route::All;
                request.task_of =
                    (is_one_of_all && request.found.has_task).then(|| Arc::clone(&server));
                self.deliver(&server, request);
            }
            Decision::List(server, method) => self.list(&server, request, method),
            Decision::MergedList(method) => self.aggregate(method, &request.id(), Wants::List),
            Decision::Search(item) => {
                let (list, id) = (item.list, request.id());
                self.aggregate(list, &id, Wants::Item(Box::new(request), item));
            }
        }
    }

    fn notification(&mut self, frame: &Frame) {
        // A notification gets no response, even if it is invalid.
        if message::is_misnamed(frame) || params::check(frame).is_err() {
            return;
        }
        match frame.method() {
            b"notifications/initialized" => {
                self.client.set_initialized();
                self.ask_roots_if_shared();
            }
            b"notifications/roots/list_changed" => self.change_roots(frame),
            b"notifications/cancelled" => {
                let Some(edges) = message::param(frame, &["requestId"]) else { return };
                let id = message::same_id(frame.bytes().slice(edges));
                // A cancelled request gets no response.
                let with_server = self.client.calls().take_back(&id);
                if let Some(call) = with_server {
                    cancel(&self.client, &call, "the client has cancelled it");
                    self.client.withdraw(&id);
                } else if self.withdraw(&id) {
                    self.client.withdraw(&id);
                }
            }
            _ => self.pass_on(frame),
        }
    }

    /// Forwards a notification to the client's exclusive instances. If the client sees all servers as one, only
    /// `roots/list_changed` is forwarded.
    pub(super) fn pass_on(&self, frame: &Frame) {
        if self.servers.route == Route::All && frame.method() != b"notifications/roots/list_changed"
        {
            return;
        }
        for leased in self.links.values().filter_map(Link::leased) {
            if leased.attachment.upstream.is_exclusive() {
                // Notifications are not repeated if the instance has ended.
                let _ = leased.lease.notify(frame);
            }
        }
    }

    /// Handles the client's response to a request of the gateway or of a server.
    fn answer(&mut self, frame: &Frame) {
        if self.client.roots().hear(frame) {
            return;
        }
        if let Some(request) = self.client.take_server_request(frame) {
            let edits = vec![(frame.id_edges(), request.id.clone())];
            request.answer(&message::splice(frame.bytes(), edits));
        }
    }

    fn list(&mut self, server: &Arc<str>, request: ClientRequest, method: &'static str) {
        let is_first_page = message::param(&request.frame, &["cursor"]).is_none();
        // With `share: call` the client has no instance of its own, so it waits for a listing, which fetches all
        // lists.
        let is_listed = |view: &Arc<ServerView>| view.is_per_call() && view.needs_listing(method);
        if is_first_page && self.servers.now().get(server).is_some_and(is_listed) {
            let (id, server) = (request.id(), Arc::clone(server));
            return self.aggregate(method, &id, Wants::Server(Box::new(request), server));
        }
        self.list_or_ask(server, request, method);
    }

    /// Answers with the catalog's list, or forwards the request to the server.
    pub(super) fn list_or_ask(
        &mut self,
        server: &Arc<str>,
        request: ClientRequest,
        method: &'static str,
    ) {
        let is_first_page = message::param(&request.frame, &["cursor"]).is_none();
        let leased = self.leased(server);
        // A running server that does not announce changes of its lists has to be asked.
        let is_fresh = leased.is_none_or(|leased| leased.attachment.upstream.vouches_for(method));
        let view = self.servers.now().get(server).filter(|_| is_first_page && is_fresh);
        let result = view.filter(|view| !view.is_own_list(method)).and_then(|view| {
            let result = view.known()?.lists.get(method)?.clone();
            Some(view.filter(method, result))
        });
        match result {
            Some(result) => {
                self.refresh(server);
                let id = request.id();
                self.client.reply(&id, message::answer(&id, &result));
            }
            None => self.forward(server, request),
        }
    }

    fn set_level(&mut self, frame: &Frame, id: &Bytes) {
        let level = message::text_param(frame, &["level"]);
        let Some(level) = level.as_deref().and_then(log_level::severity) else {
            return self.client.fail(id, code::INVALID_PARAMS, "no such level", None);
        };
        if !self.servers.now().may_have(&["logging"]) {
            let text = "no server of this client has a log";
            return self.client.fail(id, code::METHOD_NOT_FOUND, text, None);
        }
        self.client.set_log_level(level);
        self.client.reply(id, message::answer(id, b"{}"));
        self.links.values().filter_map(Link::leased).for_each(merge_levels);
    }
}

/// Id of a request, as a value that does not keep the bytes of a large request alive.
fn id_of(request: &Frame, counted: &Counted) -> Bytes {
    let id = message::request_id(request);
    match counted {
        Ok(charge) => charge.detached(id),
        Err(_) => id,
    }
}
