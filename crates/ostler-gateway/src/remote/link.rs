//! State of one session with a remote server, shared by all its requests.
//!
//! `Link` adds the headers that every request needs: the configured ones, `Mcp-Session-Id` and `MCP-Protocol-Version`
//! as soon as the handshake has set them, and a bearer token from the `Keyring`. A request that gets 401 is repeated
//! once if the keyring has a newer token; this is safe because the server rejected the first one without executing it.
//!
//! An unsuccessful status becomes a `Failure`. If `initialize` fails, or the server no longer knows the session, `lose`
//! marks the whole session as lost and `lost` wakes the conversation. Other failures concern only their own request.

use std::sync::OnceLock;
use std::time::Duration;

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Response, StatusCode};
use ostler::{Frame, Kind};
use tokio::sync::Notify;

use super::address::Address;
use super::failure::Failure;
use super::http::{Http, Question, whole};
use super::limits::RemoteLimits;
use super::oauth::Keyring;
use super::outlet::Outlet;
use crate::protocol::message::{self, code};

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");
const BOTH: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");

/// One session with a remote server.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) name: String,
    pub(super) address: Address,
    pub(super) headers: HeaderMap,
    pub(super) keyring: Option<Keyring>,
    pub(super) http: Http,
    pub(super) out: Outlet,
    pub(super) limits: RemoteLimits,
    pub(super) state: State,
}

/// Session state that is learned from responses.
#[derive(Debug, Default)]
pub(super) struct State {
    /// Session id that the server assigned.
    session: OnceLock<HeaderValue>,
    version: OnceLock<HeaderValue>,
    /// Endpoint for POST requests that an HTTP+SSE server announced.
    pub(super) endpoint: OnceLock<Address>,
    lost: OnceLock<String>,
    has_lost: Notify,
    is_forgotten: OnceLock<()>,
}

/// Body of a response to a request.
pub(super) enum Answer {
    /// No body: status 202 or 204.
    Empty,
    /// A single JSON message.
    Whole(Bytes),
    /// An event stream.
    Stream(Incoming),
}

impl Link {
    /// Posts a message and returns the response.
    pub(super) async fn post(&self, message: &Frame) -> Result<Response<Incoming>, Failure> {
        let to = self.state.endpoint.get().unwrap_or(&self.address).clone();
        let mut headers = self.own_headers();
        headers.insert(ACCEPT, BOTH);
        headers.insert(CONTENT_TYPE, JSON);
        let body = message.bytes().clone();
        self.ask(Question { method: Method::POST, to, headers, body }).await
    }

    /// Posts a message that has no response, such as a notification.
    pub(super) async fn tell(&self, message: &Frame) -> Result<(), Failure> {
        let limit = self.limits.taken;
        let told = async {
            let answer = self.post(message).await?;
            // Reading the body to its end makes the connection reusable.
            let _ = whole(answer.into_body(), self.limits.small).await;
            Ok(())
        };
        tokio::time::timeout(limit, told).await.unwrap_or(Err(Failure::NotTaken(limit)))
    }

    /// Opens an event stream with GET, resuming after the event `after` if given.
    pub(super) async fn stream(&self, after: Option<&[u8]>) -> Result<Incoming, Failure> {
        let mut headers = self.own_headers();
        headers.insert(ACCEPT, STREAM);
        if let Some(after) = after.and_then(|id| HeaderValue::from_bytes(id).ok()) {
            headers.insert(LAST_EVENT, after);
        }
        let (method, to, body) = (Method::GET, self.address.clone(), Bytes::new());
        let answer = self.ask(Question { method, to, headers, body }).await?;
        match kind(&answer) {
            "text/event-stream" => Ok(answer.into_body()),
            other => Err(Failure::NoMessage(other.to_owned())),
        }
    }

    /// Classifies the body of a response by status and content type.
    pub(super) async fn answer(&self, answer: Response<Incoming>) -> Result<Answer, Failure> {
        let empty = matches!(answer.status(), StatusCode::ACCEPTED | StatusCode::NO_CONTENT);
        match kind(&answer) {
            "text/event-stream" => Ok(Answer::Stream(answer.into_body())),
            "application/json" if !empty => {
                Ok(Answer::Whole(whole(answer.into_body(), self.limits.message).await?))
            }
            _ if empty => Ok(Answer::Empty),
            other => Err(Failure::NoMessage(other.to_owned())),
        }
    }

    /// Deletes the session at the server, if there is one.
    pub(super) async fn leave(&self, limit: Duration) {
        if self.state.session.get().is_none() || self.state.is_forgotten.get().is_some() {
            return;
        }
        let headers = self.own_headers();
        let (method, to, body) = (Method::DELETE, self.address.clone(), Bytes::new());
        // Best effort: servers need not support DELETE, and one that does not answer must not delay the end.
        let _ = tokio::time::timeout(limit, self.ask(Question { method, to, headers, body })).await;
    }

    /// Stores the session id from the headers of the `initialize` response.
    pub(super) fn note_session(&self, answer: &HeaderMap) {
        if let Some(session) = answer.get(SESSION) {
            let mut session = session.clone();
            session.set_sensitive(true);
            let _ = self.state.session.set(session);
        }
    }

    pub(super) fn note_version(&self, answer: &Frame) {
        // The first response is that of `initialize`; later ones need not be searched.
        if self.state.version.get().is_some() {
            return;
        }
        let found = message::find(answer.bytes(), answer.body_edges(), &["protocolVersion"]);
        let text = found.and_then(|edges| serde_json::from_slice(&answer.bytes()[edges]).ok());
        let text: Option<String> = text.filter(|_| answer.kind() == Kind::Answer);
        if let Some(version) = text.and_then(|text| HeaderValue::from_str(&text).ok()) {
            let _ = self.state.version.set(version);
        }
    }

    /// Marks the session as lost. The first reason is kept.
    pub(super) fn lose(&self, reason: &Failure) {
        if matches!(reason, Failure::Forgotten(_)) {
            let _ = self.state.is_forgotten.set(());
        }
        let _ = self.state.lost.set(reason.to_string());
        self.state.has_lost.notify_one();
    }

    /// Waits until the session is lost. Returns the reason.
    pub(super) async fn lost(&self) -> String {
        loop {
            if let Some(reason) = self.state.lost.get() {
                return reason.clone();
            }
            self.state.has_lost.notified().await;
        }
    }

    /// Answers a request with an error. If `initialize` failed or the server forgot the session, the whole session is
    /// lost instead.
    pub(super) async fn fail(&self, request: &Frame, failure: &Failure) {
        if matches!(failure, Failure::Forgotten(_)) || request.method() == b"initialize" {
            return self.lose(failure);
        }
        let text = format!("{}: {failure}", self.name);
        let error = message::error(request.id(), code::INTERNAL, &text, Some(failure.reason()));
        self.out.say(&error).await;
    }

    fn own_headers(&self) -> HeaderMap {
        let mut headers = self.headers.clone();
        let State { session, version, .. } = &self.state;
        for (name, value) in [(SESSION, session.get()), (VERSION, version.get())] {
            if let Some(value) = value {
                headers.insert(name, value.clone());
            }
        }
        headers
    }

    /// Sends a request with the current bearer token. After a 401 it is sent once more if there is a newer token: the
    /// server did not execute the rejected request.
    async fn ask(&self, question: Question) -> Result<Response<Incoming>, Failure> {
        let Some(keyring) = &self.keyring else {
            return self.check(self.http.ask(question).await?, || Failure::Credentials).await;
        };
        let log_in = || Failure::LogIn(self.name.clone());
        let with = |key: Option<&HeaderValue>| {
            let mut question = question.clone();
            question.headers.extend(key.map(|key| (AUTHORIZATION, key.clone())));
            question
        };
        let key = keyring.key().await;
        let answer = self.http.ask(with(key.as_ref())).await?;
        if answer.status() != StatusCode::UNAUTHORIZED {
            return self.check(answer, log_in).await;
        }
        let newer = keyring.newer(key.as_ref()).await.ok_or_else(log_in)?;
        self.check(self.http.ask(with(Some(&newer))).await?, log_in).await
    }

    async fn check(
        &self,
        answer: Response<Incoming>,
        unknown: impl FnOnce() -> Failure,
    ) -> Result<Response<Incoming>, Failure> {
        let status = answer.status();
        if status.is_success() {
            return Ok(answer);
        }
        if status == StatusCode::UNAUTHORIZED {
            return Err(unknown());
        }
        let body = whole(answer.into_body(), self.limits.small).await.unwrap_or_default();
        let failure = Failure::status(status, &body);
        let is_known = self.state.session.get().is_some();
        Err(if is_known && failure.forgets() { Failure::Forgotten(status) } else { failure })
    }
}

impl Drop for Link {
    /// Also closes the connections of a conversation that was dropped without `run` reaching its end.
    fn drop(&mut self) {
        self.http.cut();
    }
}

/// Media type of a response, without parameters.
fn kind(answer: &Response<Incoming>) -> &str {
    let kind = answer.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.and_then(|kind| kind.split(';').next()).map_or("no content type", str::trim)
}
