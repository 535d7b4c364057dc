//! MCP requests over HTTP: POST a message, GET an event stream, DELETE the session.

use std::sync::Arc;

use hyper::StatusCode;
use ostler::Frame;

use super::Http;
use super::guard::Caller;
use super::head::Head;
use super::headers;
use super::mcp_session::{Inbound, McpSession, NewSession, PresenceGuard};
use super::outbound::FirstMessage;
use super::path::{self, Transport};
use super::post::{ParsedPost, PostBody};
use super::refusal::Refusal;
use super::response::{Content, Response};
use super::sessions::{Sessions, written};
use super::sse::{Opening, SseBody};
use crate::protocol::message;
use crate::protocol::version;
use crate::quota::{Account, ByteBudget};

/// Action that the head of a request asks for.
#[derive(Debug)]
pub(super) enum Action {
    /// The response is known without the body.
    Respond(Response),
    /// The body holds a message for this target.
    PostTarget(PostTarget),
}

/// Request that has passed the guard and the rate limit.
#[derive(Debug)]
pub(super) struct Admitted {
    pub(super) asked: Action,
    /// Quotas of its principal.
    pub(super) account: Arc<Account>,
}

/// Receiver of the message in a POST.
#[derive(Debug)]
pub(super) enum PostTarget {
    /// New session for this caller, with one server or all. The body must be an `initialize` request.
    NewSession(Caller, Option<String>),
    InSession(PresenceGuard),
    /// Session of the HTTP+SSE transport, with its event stream.
    LegacySse(Arc<McpSession>, u64),
}

impl Http {
    /// Authenticates a request by its head, counts it towards the rate limit, and decides its action.
    pub(super) fn admit(&self, head: &Head<'_>) -> Result<Admitted, Refusal> {
        let caller = self.guard.check(head, &self.gateway.credentials())?;
        let account = Arc::clone(caller.credential.account(self.gateway.router().quotas()));
        account.pace(1).map_err(Refusal::Pace)?;
        Ok(Admitted { asked: self.ask(caller, head)?, account })
    }

    fn ask(&self, caller: Caller, head: &Head<'_>) -> Result<Action, Refusal> {
        let (way, server) = path::parse(head.path)?;
        let server = server.as_deref();
        let response = match (way, head.method) {
            (Transport::Streamable, "POST") => {
                return self.post(caller, server, head).map(Action::PostTarget);
            }
            (Transport::Streamable, "GET") => self.listen(&caller, server, head),
            (Transport::Streamable, "DELETE") => self.leave(&caller, server, head),
            (Transport::LegacySse, "POST") => {
                return self.post_legacy_sse(&caller, server, head).map(Action::PostTarget);
            }
            (Transport::LegacySse, "GET") => self.open_legacy_sse(caller, server, head),
            _ => Err(Refusal::Method),
        };
        response.map(Action::Respond)
    }

    fn post(
        &self,
        caller: Caller,
        server: Option<&str>,
        head: &Head<'_>,
    ) -> Result<PostTarget, Refusal> {
        headers::check_post(head)?;
        let Some(id) = headers::session(head) else {
            return Ok(PostTarget::NewSession(caller, server.map(str::to_owned)));
        };
        let session = self.find(id, &caller, server, head)?;
        // The client counts as present while it sends the body, however long that takes.
        Ok(PostTarget::InSession(session.presence_guard()))
    }

    /// Byte budget that the body of a POST is charged to.
    pub(super) fn budget_of(&self, post: &PostTarget) -> Arc<ByteBudget> {
        match post {
            PostTarget::NewSession(caller, _) => self.budget(caller),
            PostTarget::InSession(presence_guard) => Arc::clone(&presence_guard.session().budget),
            PostTarget::LegacySse(session, _) => Arc::clone(&session.budget),
        }
    }

    /// Byte budget of a session that is not open yet.
    fn budget(&self, caller: &Caller) -> Arc<ByteBudget> {
        ByteBudget::new(Arc::clone(caller.credential.account(self.gateway.router().quotas())))
    }

    /// Parses the body of a POST and answers it.
    pub(super) async fn receive(
        &self,
        post: PostTarget,
        body: PostBody,
    ) -> Result<Response, Refusal> {
        match post {
            PostTarget::NewSession(caller, server) => {
                self.initialize(caller, server.as_deref(), ParsedPost::parse(body, "")?).await
            }
            PostTarget::InSession(presence_guard) => {
                let parsed = ParsedPost::parse(body, &presence_guard.session().version)?;
                parsed.pace(presence_guard.session().account())?;
                deliver(presence_guard, parsed).await
            }
            PostTarget::LegacySse(session, stream) => {
                let parsed = ParsedPost::parse(body, &session.version)?;
                parsed.pace(session.account())?;
                let ParsedPost { message, requests } = parsed;
                session.receive(Inbound { message: Some(message), requests, stream })?;
                Ok(Response::empty(StatusCode::ACCEPTED))
            }
        }
    }

    /// Handles a POST without a session id, which must be an `initialize` request.
    async fn initialize(
        &self,
        caller: Caller,
        server: Option<&str>,
        parsed: ParsedPost,
    ) -> Result<Response, Refusal> {
        let initialize = parsed.initialize().ok_or(Refusal::NoSession)?;
        let requested = message::text_param(initialize, &["protocolVersion"]).unwrap_or_default();
        let session = self.open(caller, server, version::agreed(&requested))?;
        let guard = InitializeGuard { session: &session, sessions: &self.sessions, is_told: false };
        let mut response = deliver(session.presence_guard(), parsed).await?;
        if guard.settle(&response) {
            response.header = Some((headers::SESSION, written(session.id).into()));
        }
        Ok(response)
    }

    /// Opens a session with this protocol version.
    pub(super) fn open(
        &self,
        caller: Caller,
        server: Option<&str>,
        version: &str,
    ) -> Result<Arc<McpSession>, Refusal> {
        if self.gateway.closing().is_cancelled() {
            return Err(Refusal::Closing);
        }
        let server = server.map(str::to_owned);
        let budget = self.budget(&caller);
        let spec =
            self.gateway.admit_with_credential(server.clone(), caller.agent, &caller.credential)?;
        let version = version.to_owned();
        let new_session =
            NewSession { credential: caller.credential, budget, server, version, spec };
        self.sessions.open(new_session, self.limits, &self.gateway)
    }

    fn listen(
        &self,
        caller: &Caller,
        server: Option<&str>,
        head: &Head<'_>,
    ) -> Result<Response, Refusal> {
        headers::check_get(head)?;
        let id = headers::session(head).ok_or(Refusal::Method)?;
        let session = self.find(id, caller, server, head)?;
        let presence_guard = session.presence_guard();
        let last = headers::last_event(head);
        let resumed = last.and_then(|(stream, number)| session.outbound.resume(stream, number));
        let reader = resumed.unwrap_or_else(|| session.outbound.listen());
        // Attaches a detached session. If its queue is full, an earlier message attaches it.
        let _ = session.receive(Inbound::default());
        Ok(Response::events(SseBody::new(reader, opening(&session), presence_guard)))
    }

    fn leave(
        &self,
        caller: &Caller,
        server: Option<&str>,
        head: &Head<'_>,
    ) -> Result<Response, Refusal> {
        let id = headers::session(head).ok_or(Refusal::Method)?;
        let session = self.find(id, caller, server, head)?;
        self.sessions.forget(&session);
        Ok(Response::empty(StatusCode::OK))
    }

    fn find(
        &self,
        id: &str,
        caller: &Caller,
        server: Option<&str>,
        head: &Head<'_>,
    ) -> Result<Arc<McpSession>, Refusal> {
        let session = self.sessions.find(id, &caller.credential, server);
        let session = session
            .filter(|session| session.only.get().is_none())
            .ok_or(Refusal::UnknownSession)?;
        headers::check_version(head)?;
        Ok(session)
    }
}

/// Passes a message to the session, and waits for the first message of the response.
async fn deliver(presence_guard: PresenceGuard, parsed: ParsedPost) -> Result<Response, Refusal> {
    let session = presence_guard.session();
    let ParsedPost { message, requests } = parsed;
    let message = Some(message);
    if requests == 0 {
        session.receive(Inbound { message, requests, stream: 0 })?;
        return Ok(Response::empty(StatusCode::ACCEPTED));
    }
    let reader = session.outbound.post(requests);
    session.receive(Inbound { message, requests, stream: reader.stream() })?;
    Ok(match reader.first().await {
        FirstMessage::Response(line) => Response::json(line),
        FirstMessage::Stream => {
            Response::events(SseBody::new(reader, opening(session), presence_guard))
        }
        // The requests were cancelled. HTTP still needs a response: an event stream without messages.
        FirstMessage::Nothing => {
            Response::events(SseBody::new(reader, Opening::Plain, presence_guard))
        }
        FirstMessage::End => return Err(Refusal::UnknownSession),
    })
}

fn opening(session: &McpSession) -> Opening {
    if *session.version < *version::LATEST { Opening::Plain } else { Opening::Primed }
}

/// Ends a new session when it is dropped, unless its id was sent to the client.
struct InitializeGuard<'a> {
    session: &'a McpSession,
    sessions: &'a Sessions,
    is_told: bool,
}

impl InitializeGuard<'_> {
    /// Keeps the session if the handshake succeeded. Returns whether it did.
    fn settle(mut self, response: &Response) -> bool {
        self.is_told = match &response.content {
            Content::Json(line) => {
                let response = Frame::parse(line.slice_ref(line.trim_ascii_end()));
                response.is_ok_and(|response| !response.is_error())
            }
            Content::Nothing => false,
            Content::Events(_) => true,
        };
        self.is_told
    }
}

impl Drop for InitializeGuard<'_> {
    fn drop(&mut self) {
        if !self.is_told {
            self.sessions.forget(self.session);
        }
    }
}
