//! What clients ask for: to say something, to listen, to leave.

use std::sync::Arc;

use hyper::body::Incoming;
use hyper::header::HeaderValue;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use ostler::Frame;

use super::Http;
use super::body::{Body, events, json, status};
use super::guard::Caller;
use super::headers;
use super::lobby::{Lobby, written};
use super::mail::First;
use super::path::{self, Way};
use super::refusal::Refusal;
use super::said::Said;
use super::stay::{Arrival, Attendance, Letter, Stay};
use super::stream::{Opening, Stream};
use crate::message;
use crate::version;

impl Http {
    /// Answers a request, whatever it is.
    pub(super) async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        self.serve(request).await.unwrap_or_else(Refusal::into_response)
    }

    async fn serve(&self, request: Request<Incoming>) -> Result<Response<Body>, Refusal> {
        let (head, body) = request.into_parts();
        let caller = self.guard.check(&head.headers, &self.house.passes())?;
        let (way, server) = path::parse(head.uri.path())?;
        let server = server.as_deref();
        match head.method {
            Method::GET if way == Way::Old => {
                self.open_old(caller, server, head.uri.path(), &head.headers)
            }
            Method::POST if way == Way::Old => self.post_old(&caller, server, &head, body).await,
            _ if way == Way::Old => Err(Refusal::Method),
            Method::POST => self.post(caller, server, &head.headers, body).await,
            Method::GET => self.listen(&caller, server, &head.headers),
            Method::DELETE => self.leave(&caller, server, &head.headers),
            _ => Err(Refusal::Method),
        }
    }

    async fn post(
        &self,
        caller: Caller,
        server: Option<&str>,
        headers: &HeaderMap,
        body: Incoming,
    ) -> Result<Response<Body>, Refusal> {
        headers::check_post(headers)?;
        let Some(id) = headers::session(headers) else {
            let said = Said::parse(&self.room.read(body).await?, "")?;
            return self.arrive(caller, server, said).await;
        };
        let stay = self.find(id, &caller, server, headers)?;
        // It is there while it sends, however long that takes.
        let attendance = stay.attend();
        let body = self.room.read(body).await?;
        say(&stay, attendance, Said::parse(&body, &stay.version)?).await
    }

    /// A client's first words.
    async fn arrive(
        &self,
        caller: Caller,
        server: Option<&str>,
        said: Said,
    ) -> Result<Response<Body>, Refusal> {
        let hello = said.hello().ok_or(Refusal::NoSession)?;
        let requested = message::text_param(hello, &["protocolVersion"]).unwrap_or_default();
        let stay = self.open(caller, server, version::agreed(&requested))?;
        let newcomer = Newcomer { stay: &stay, lobby: &self.lobby, is_told: false };
        let mut response = say(&stay, stay.attend(), said).await?;
        if newcomer.settle(&response) {
            let id = HeaderValue::from_str(&written(stay.id));
            response.headers_mut().extend(id.ok().map(|id| (headers::SESSION, id)));
        }
        Ok(response)
    }

    /// A stay for a client that speaks this version.
    pub(super) fn open(
        &self,
        caller: Caller,
        server: Option<&str>,
        version: &str,
    ) -> Result<Arc<Stay>, Refusal> {
        if self.house.closing().is_cancelled() {
            return Err(Refusal::Closing);
        }
        let server = server.map(str::to_owned);
        let visitor = self.house.welcome_by_pass(server.clone(), caller.agent, &caller.pass)?;
        let version = version.to_owned();
        let arrival = Arrival { pass: caller.pass, server, version, visitor };
        self.lobby.open(arrival, self.limits, &self.house)
    }

    fn listen(
        &self,
        caller: &Caller,
        server: Option<&str>,
        headers: &HeaderMap,
    ) -> Result<Response<Body>, Refusal> {
        headers::check_get(headers)?;
        let id = headers::session(headers).ok_or(Refusal::Method)?;
        let stay = self.find(id, caller, server, headers)?;
        let attendance = stay.attend();
        let last = headers::last_event(headers);
        let resumed = last.and_then(|(track, number)| stay.mail.resume(track, number));
        let reader = resumed.unwrap_or_else(|| stay.mail.listen());
        // Its session may have ended because it was away. If there is no room, somebody has said the same.
        let _ = stay.say(Letter::default());
        Ok(events(Stream::new(reader, opening(&stay), attendance)))
    }

    fn leave(
        &self,
        caller: &Caller,
        server: Option<&str>,
        headers: &HeaderMap,
    ) -> Result<Response<Body>, Refusal> {
        let id = headers::session(headers).ok_or(Refusal::Method)?;
        let stay = self.find(id, caller, server, headers)?;
        self.lobby.forget(&stay);
        Ok(status(StatusCode::OK))
    }

    fn find(
        &self,
        id: &str,
        caller: &Caller,
        server: Option<&str>,
        headers: &HeaderMap,
    ) -> Result<Arc<Stay>, Refusal> {
        let stay = self.lobby.find(id, &caller.pass, server);
        let stay = stay.filter(|stay| stay.only.get().is_none()).ok_or(Refusal::UnknownSession)?;
        headers::check_version(headers)?;
        Ok(stay)
    }
}

/// Brings what a client has said to its session, and waits for what it is told.
async fn say(stay: &Stay, attendance: Attendance, said: Said) -> Result<Response<Body>, Refusal> {
    let Said { words, ids } = said;
    let words = Some(words);
    if ids.is_empty() {
        stay.say(Letter { words, ids, track: 0 })?;
        return Ok(status(StatusCode::ACCEPTED));
    }
    let reader = stay.mail.post();
    stay.say(Letter { words, ids, track: reader.track() })?;
    Ok(match reader.first().await {
        First::Answer(line) => json(line),
        First::Several => events(Stream::new(reader, opening(stay), attendance)),
        // A request needs an answer, even if there is nothing to say.
        First::Nothing => events(Stream::new(reader, Opening::Plain, attendance)),
        First::End => return Err(Refusal::UnknownSession),
    })
}

fn opening(stay: &Stay) -> Opening {
    if *stay.version < *version::LATEST { Opening::Plain } else { Opening::Primed }
}

/// A client that does not know the id of its session yet.
struct Newcomer<'a> {
    stay: &'a Stay,
    lobby: &'a Lobby,
    is_told: bool,
}

impl Newcomer<'_> {
    /// It is told, unless its handshake has failed. Whether it is.
    fn settle(mut self, response: &Response<Body>) -> bool {
        self.is_told = match response.body() {
            Body::Whole(Some(line)) => {
                let answer = Frame::parse(line.slice_ref(line.trim_ascii_end()));
                answer.is_ok_and(|answer| !answer.is_error())
            }
            Body::Whole(None) => false,
            Body::Stream(_) => true,
        };
        self.is_told
    }
}

impl Drop for Newcomer<'_> {
    fn drop(&mut self) {
        if !self.is_told {
            self.lobby.forget(self.stay);
        }
    }
}
