//! Dispatch of the client's messages: requests, notifications, responses and batches.

use std::sync::Arc;

use bytes::Bytes;
use ostler::keeper::Sharing;
use ostler::{Frame, Kind};

use super::aggregate::Wants;
use super::leased::merge_levels;
use super::parcel::Parcel;
use super::{Route, Session, cancel, version_of};
use crate::catalog::{Found, Name};
use crate::protocol::batch;
use crate::protocol::initialize::Initialize;
use crate::protocol::lists::LISTS;
use crate::protocol::log_level;
use crate::protocol::message::{self, code};
use crate::protocol::params;
use crate::protocol::terms;
use crate::protocol::uris::Style;
use crate::protocol::version;
use crate::quota::{Charge, QuotaExceeded};
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
        let parcel = match Parcel::new(id.clone(), frame, charge) {
            Ok(parcel) => parcel,
            Err(unclear) => {
                let text = unclear.to_string();
                return self.client.fail(id, code::INVALID_PARAMS, &text, None);
            }
        };
        match parcel.frame.method() {
            b"ping" => self.client.reply(id, message::answer(id, b"{}")),
            b"initialize" => self.initialize(parcel, id),
            _ if self.client.initialize().is_none() => refuse("the handshake comes first"),
            b"logging/setLevel" => self.set_level(&parcel.frame, id),
            _ => match self.route.clone() {
                Route::One(server) => self.request_of(&server, parcel, id),
                Route::All => self.request_of_all(parcel, id),
            },
        }
    }

    /// Handles a request of a client with one server, whose names are passed on unchanged.
    fn request_of(&mut self, server: &Arc<str>, mut parcel: Parcel, id: &Bytes) {
        let frame = &parcel.frame;
        if terms::is_withheld(|| self.shares(server), frame, &parcel.found) {
            let text = "not offered by a server that is shared like this";
            return self.client.fail(id, code::METHOD_NOT_FOUND, text, Some("withheld"));
        }
        let method = frame.method();
        if let Some((list, _)) = LISTS.iter().find(|(list, _)| list.as_bytes() == method) {
            return self.list(server, parcel, list, id);
        }
        match method {
            b"resources/subscribe" | b"resources/unsubscribe" => {
                let uri = message::text_param(frame, &["uri"]);
                parcel.subject =
                    uri.map(|uri| Box::new(((Arc::clone(server), uri), Style::default())));
            }
            b"tools/call" if !self.may_call(server, frame) => {
                let text = "no such tool";
                return self.client.fail(id, code::INVALID_PARAMS, text, Some("denied"));
            }
            _ => {}
        }
        self.deliver(server, parcel);
    }

    /// Whether the configuration allows the tool that the request calls.
    fn may_call(&self, server: &str, frame: &Frame) -> bool {
        let tools = self.server_set.tools(server);
        tools.is_everything()
            || message::text_param(frame, &["name"]).is_some_and(|name| tools.permit(&name))
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
        let is_for = |server: &Arc<str>| match &self.route {
            Route::One(one) => one == server,
            Route::All => frame.method() == b"notifications/roots/list_changed",
        };
        for leased in
            self.links.keys().filter(|server| is_for(server)).filter_map(|s| self.leased(s))
        {
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

    fn initialize(&mut self, parcel: Parcel, id: &Bytes) {
        let initialize = match Initialize::read(&parcel.frame) {
            Ok(initialize) => initialize,
            Err(why) => {
                return self.client.fail(id, code::INVALID_PARAMS, &why.to_string(), None);
            }
        };
        if !self.client.introduce(initialize) {
            let text = "the handshake is done already";
            return self.client.fail(id, code::INVALID_REQUEST, text, None);
        }
        match self.route.clone() {
            Route::All => self.welcome_to_all(id),
            Route::One(server) => match self.found(&server).map(|found| found.known) {
                Some(known) if !known.initialize.is_empty() => {
                    self.refresh(&server);
                    self.answer_initialize(id, &server, &known.initialize);
                }
                // The request for a lease fails with the reason why there is no such server.
                _ if self.server_set.id(&server).is_none() => self.forward(&server, parcel),
                _ => self.aggregate("tools/list", id, Wants::Server(Box::new(parcel), server)),
            },
        }
    }

    /// Answers the client's handshake with the server's result, and the lower of their protocol versions.
    pub(super) fn answer_initialize(&self, id: &Bytes, server: &str, result: &Bytes) {
        let Some(initialize) = self.client.initialize() else { return };
        let result = &terms::offered(self.shares(server), result);
        let edges = message::find(result, 0..result.len(), &["protocolVersion"]);
        let own = edges.clone().and_then(|edges| serde_json::from_slice(&result[edges]).ok());
        let version = version::lower(&initialize.version, own.unwrap_or(&initialize.version));
        self.client.agree_on(version);
        let version = edges.map(|edges| (edges, Bytes::from(format!("\"{version}\""))));
        let result = message::splice(result, version.into_iter().collect());
        self.client.reply(id, message::answer(id, &result[..result.len() - 1]));
    }

    fn list(&mut self, server: &Arc<str>, parcel: Parcel, method: &'static str, id: &Bytes) {
        let is_first_page = message::param(&parcel.frame, &["cursor"]).is_none();
        // With `share: call` the client has no instance of its own, so it waits for a listing, which fetches all
        // lists.
        let is_for_one_call = self.server_set.sharing(server) == Sharing::Call;
        if is_first_page && is_for_one_call && self.needs_listing(server, method) {
            return self.aggregate(method, id, Wants::Server(Box::new(parcel), Arc::clone(server)));
        }
        self.list_or_ask(server, parcel, method, id);
    }

    /// Answers with the catalog's list, or forwards the request to the server.
    pub(super) fn list_or_ask(
        &mut self,
        server: &Arc<str>,
        parcel: Parcel,
        method: &'static str,
        id: &Bytes,
    ) {
        let is_first_page = message::param(&parcel.frame, &["cursor"]).is_none();
        let leased = self.leased(server);
        // A running server that does not announce changes of its lists has to be asked.
        let is_fresh = leased.is_none_or(|leased| leased.attachment.upstream.vouches_for(method));
        let is_kept = is_first_page && is_fresh && !self.is_own_list(server, method);
        let found = self.found(server).filter(|_| is_kept);
        match found.and_then(|found| found.known.lists.get(method).cloned()) {
            Some(result) => {
                self.refresh(server);
                let result = self.server_set.tools(server).filter(method, result);
                self.client.reply(id, message::answer(id, &result));
            }
            None => self.forward(server, parcel),
        }
    }

    fn set_level(&mut self, frame: &Frame, id: &Bytes) {
        let level = message::text_param(frame, &["level"]);
        let Some(level) = level.as_deref().and_then(log_level::severity) else {
            return self.client.fail(id, code::INVALID_PARAMS, "no such level", None);
        };
        if !self.may_have(&["logging"]) {
            let text = "no server of this client has a log";
            return self.client.fail(id, code::METHOD_NOT_FOUND, text, None);
        }
        self.client.set_log_level(level);
        self.client.reply(id, message::answer(id, b"{}"));
        for server in self.links.keys() {
            if let Some(leased) = self.leased(server) {
                merge_levels(leased);
            }
        }
    }

    /// Catalog entry of a server, as clients like this one see it, or else other clients of the same principal.
    pub(super) fn found(&self, server: &str) -> Option<Found> {
        self.upstreams.catalog.find(&self.catalog_name(server)?)
    }

    /// Name of the catalog entry for a server as clients like this one see it.
    pub(super) fn catalog_name(&self, server: &str) -> Option<Name> {
        let profile = self.client.list_profile(self.server_set.sharing(server));
        self.server_set.catalog_name(server, &self.scope.who().principal, profile)
    }

    /// Effective sharing of a server: without a named agent, the agent is only this session.
    pub(super) fn shares(&self, server: &str) -> Sharing {
        match self.server_set.sharing(server) {
            Sharing::Agent if self.scope.who().agent.is_none() => Sharing::Session,
            sharing => sharing,
        }
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
