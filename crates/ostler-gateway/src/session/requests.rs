//! What a client says, one message after the other.

use std::sync::Arc;

use bytes::Bytes;
use ostler::keeper::Sharing;
use ostler::{Frame, Kind};
use serde_json::value::RawValue;

use super::reach::merge_levels;
use super::{Route, Session, cancel};
use crate::catalog::Known;
use crate::hello::Hello;
use crate::hub::LISTS;
use crate::log_level;
use crate::message::{self, code};
use crate::terms;
use crate::transport::Words;
use crate::version;

impl Session {
    pub(super) fn hear(&mut self, words: Words) {
        let line = match words {
            Words::Message(frame) => return self.message(frame),
            Words::Line(line) => line,
        };
        match Frame::parse(line.clone()) {
            Ok(frame) => self.message(frame),
            Err(_) if line.first() == Some(&b'[') => self.batch(&line),
            Err(error) => {
                let is_json = serde_json::from_slice::<serde::de::IgnoredAny>(&line).is_ok();
                let code = if is_json { code::INVALID_REQUEST } else { code::PARSE };
                self.client.fail(b"", code, &error.to_string(), None);
            }
        }
    }

    fn message(&mut self, frame: Frame) {
        match frame.kind() {
            Kind::Request => self.request(frame),
            Kind::Notification => self.notification(&frame),
            Kind::Answer => self.answer(&frame),
        }
    }

    /// Several messages as one, which only one version of the protocol has.
    fn batch(&mut self, line: &Bytes) {
        let may = self.client.hello().is_some_and(|hello| hello.version == version::WITH_BATCHES);
        let messages: Result<Vec<&RawValue>, _> = serde_json::from_slice(line);
        let Some(messages) = messages.ok().filter(|messages| may && !messages.is_empty()) else {
            let text = "several messages at once are not part of this version of the protocol";
            return self.client.fail(b"", code::INVALID_REQUEST, text, None);
        };
        let parse = |raw: &&RawValue| Frame::parse(line.slice_ref(raw.get().as_bytes()));
        let frames: Vec<_> = messages.iter().map(parse).collect();
        let requests = frames.iter().flatten().filter(|frame| frame.kind() == Kind::Request);
        let ids = requests.map(|frame| frame.bytes().slice(frame.id_edges()));
        self.client.expect_batch(ids.collect());
        for frame in frames {
            match frame {
                Ok(frame) => self.message(frame),
                Err(error) => {
                    self.client.fail(b"", code::INVALID_REQUEST, &error.to_string(), None);
                }
            }
        }
    }

    fn request(&mut self, frame: Frame) {
        let id = frame.bytes().slice(frame.id_edges());
        if !message::is_whole(&id) {
            let text = "an id is a text or a whole number";
            return self.client.fail(&id, code::INVALID_REQUEST, text, None);
        }
        if self.client.pending().contains_key(&id) || self.has_waiting(&id) {
            let text = "a request with this id is in flight already";
            return self.client.fail(&id, code::INVALID_REQUEST, text, None);
        }
        match frame.method() {
            b"ping" => self.client.reply(&id, message::answer(&id, b"{}")),
            b"initialize" => self.initialize(frame, &id),
            _ if self.client.hello().is_none() => {
                self.client.fail(&id, code::INVALID_REQUEST, "the handshake comes first", None);
            }
            b"logging/setLevel" => self.set_level(&frame, &id),
            _ => match self.route.clone() {
                Route::One(server) => self.request_of(&server, frame, &id),
                Route::All => self.request_of_all(frame, &id),
            },
        }
    }

    /// A request for the only server of this client, with its own names.
    fn request_of(&mut self, server: &Arc<str>, frame: Frame, id: &Bytes) {
        if terms::is_withheld(self.shares(server), &frame) {
            let text = "not offered by a server that is shared like this";
            return self.client.fail(id, code::METHOD_NOT_FOUND, text, Some("withheld"));
        }
        let method = frame.method();
        if let Some((list, _)) = LISTS.iter().find(|(list, _)| list.as_bytes() == method) {
            return self.list(server, frame, list, id);
        }
        match method {
            b"resources/subscribe" => self.subscribe(server, frame.into()),
            b"resources/unsubscribe" => self.unsubscribe(server, frame.into()),
            b"tools/call" if !self.may_call(server, &frame) => {
                self.client.fail(id, code::INVALID_PARAMS, "no such tool", Some("denied"));
            }
            _ => self.forward(server, frame.into()),
        }
    }

    /// Whether the configuration allows the tool that is called.
    fn may_call(&self, server: &str, frame: &Frame) -> bool {
        let tools = self.menu.tools(server);
        tools.is_everything()
            || message::text_param(frame, &["name"]).is_some_and(|name| tools.permit(&name))
    }

    fn notification(&mut self, frame: &Frame) {
        match frame.method() {
            b"notifications/initialized" => self.client.set_initialized(),
            b"notifications/cancelled" => {
                let Some(edges) = message::param(frame, &["requestId"]) else { return };
                let id = frame.bytes().slice(edges);
                // Who has cancelled a call does not wait for its answer.
                if let Some(call) = self.client.take_pending(&id) {
                    cancel(&call, "the client has cancelled it");
                    self.client.withdraw(&id);
                } else if self.withdraw(&id) {
                    self.client.withdraw(&id);
                }
            }
            _ => self.pass_on(frame),
        }
    }

    /// What we do not know goes to a server that is this client's alone, and that its roots are others to
    /// every such server.
    fn pass_on(&self, frame: &Frame) {
        let is_for = |server: &Arc<str>| match &self.route {
            Route::One(one) => one == server,
            Route::All => frame.method() == b"notifications/roots/list_changed",
        };
        for held in self.reach.keys().filter(|server| is_for(server)).filter_map(|s| self.held(s)) {
            if held.attachment.upstream.is_exclusive() {
                // A server that has gone hears nothing, and a notification is not repeated.
                let _ = held.lease.notify(frame);
            }
        }
    }

    /// The client answers what a server has asked.
    fn answer(&mut self, frame: &Frame) {
        if let Some(asked) = self.client.take_asked(frame) {
            let edits = vec![(frame.id_edges(), asked.id)];
            asked.upstream.say(&message::splice(frame.bytes(), edits));
        }
    }

    fn initialize(&mut self, frame: Frame, id: &Bytes) {
        let hello = match Hello::read(&frame) {
            Ok(hello) => hello,
            Err(why) => {
                return self.client.fail(id, code::INVALID_PARAMS, &why.to_string(), None);
            }
        };
        if !self.client.introduce(hello) {
            let text = "the handshake is done already";
            return self.client.fail(id, code::INVALID_REQUEST, text, None);
        }
        match self.route.clone() {
            Route::All => self.welcome_to_all(id),
            Route::One(server) => match self.known(&server) {
                Some(known) if !known.initialize.is_empty() => {
                    self.welcome(id, &server, &known.initialize);
                }
                _ => self.forward(&server, frame.into()),
            },
        }
    }

    /// Answers the handshake with what the server has said to ours.
    pub(super) fn welcome(&self, id: &Bytes, server: &str, result: &Bytes) {
        let Some(hello) = self.client.hello() else { return };
        let result = &terms::offered(self.shares(server), result);
        let version = message::find(result, 0..result.len(), &["protocolVersion"]);
        let version = version.map(|edges| (edges, Bytes::from(format!("\"{}\"", hello.version))));
        let result = message::splice(result, version.into_iter().collect());
        self.client.reply(id, message::answer(id, &result[..result.len() - 1]));
    }

    pub(super) fn list(&mut self, server: &Arc<str>, frame: Frame, method: &str, id: &Bytes) {
        let is_first_page = message::param(&frame, &["cursor"]).is_none();
        let held = self.held(server);
        // A server that runs and does not say when its lists change has to be asked.
        let is_fresh = held.is_none_or(|held| held.attachment.upstream.vouches_for(method));
        let known = self.known(server).and_then(|known| known.lists.get(method).cloned());
        match known.filter(|_| is_first_page && is_fresh) {
            Some(result) => {
                let result = self.menu.tools(server).filter(method, result);
                self.client.reply(id, message::answer(id, &result));
            }
            None => self.forward(server, frame.into()),
        }
    }

    fn set_level(&mut self, frame: &Frame, id: &Bytes) {
        let level = message::text_param(frame, &["level"]);
        let Some(level) = level.as_deref().and_then(log_level::severity) else {
            return self.client.fail(id, code::INVALID_PARAMS, "no such level", None);
        };
        self.client.set_log_level(level);
        self.client.reply(id, message::answer(id, b"{}"));
        for server in self.reach.keys() {
            if let Some(held) = self.held(server) {
                merge_levels(held);
            }
        }
    }

    /// What the server has said of itself before, to clients like this one.
    pub(super) fn known(&self, server: &str) -> Option<Arc<Known>> {
        let fingerprint = self.menu.fingerprint(server)?;
        self.gateway.hub().catalog.known(fingerprint, &self.profile(server))
    }

    /// With whom this client shares a server: an agent without a name has only this session.
    pub(super) fn shares(&self, server: &str) -> Sharing {
        match self.menu.sharing(server) {
            Sharing::Agent if self.scope.who().agent.is_none() => Sharing::Session,
            sharing => sharing,
        }
    }

    /// What this client must have in common with others to share an instance with them.
    pub(super) fn profile(&self, server: &str) -> Arc<str> {
        let Some(hello) = self.client.hello() else { return Arc::from("") };
        hello.profile(self.menu.sharing(server))
    }
}
