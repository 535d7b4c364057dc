//! What clients ask for: to say something, to listen, to leave.

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

/// What a request asks for, as far as its head says it.
#[derive(Debug)]
pub(super) enum Action {
    /// What it gets.
    Respond(Response),
    /// To say what its body holds.
    PostTarget(PostTarget),
}

/// A request of a client that may come in.
#[derive(Debug)]
pub(super) struct Admitted {
    pub(super) asked: Action,
    /// What its principal uses of the gateway.
    pub(super) account: Arc<Account>,
}

/// Whoever wants to say something.
#[derive(Debug)]
pub(super) enum PostTarget {
    /// A client that comes for the first time, and the server that it wants.
    NewSession(Caller, Option<String>),
    InSession(PresenceGuard),
    /// One that is told everything on this stream.
    LegacySse(Arc<McpSession>, u64),
}

impl Http {
    /// Looks at the head of a request.
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
        // It is there while it sends, however long that takes.
        Ok(PostTarget::InSession(session.presence_guard()))
    }

    /// What counts the bytes of somebody who wants to say something.
    pub(super) fn budget_of(&self, post: &PostTarget) -> Arc<ByteBudget> {
        match post {
            PostTarget::NewSession(caller, _) => self.budget(caller),
            PostTarget::InSession(presence_guard) => Arc::clone(&presence_guard.session().budget),
            PostTarget::LegacySse(session, _) => Arc::clone(&session.budget),
        }
    }

    /// For a session that has not begun.
    fn budget(&self, caller: &Caller) -> Arc<ByteBudget> {
        ByteBudget::new(Arc::clone(caller.credential.account(self.gateway.router().quotas())))
    }

    /// Hears what is said, and answers it.
    pub(super) async fn hear(&self, post: PostTarget, body: PostBody) -> Result<Response, Refusal> {
        match post {
            PostTarget::NewSession(caller, server) => {
                self.arrive(caller, server.as_deref(), ParsedPost::parse(body, "")?).await
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

    /// A client's first words.
    async fn arrive(
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

    /// A stay for a client that speaks this version.
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
        // Its session may have ended because it was away. If there is no room, somebody has said the same.
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

/// Brings what a client has said to its session, and waits for what it is told.
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
        // A request needs an answer, even if there is nothing to say.
        FirstMessage::Nothing => {
            Response::events(SseBody::new(reader, Opening::Plain, presence_guard))
        }
        FirstMessage::End => return Err(Refusal::UnknownSession),
    })
}

fn opening(session: &McpSession) -> Opening {
    if *session.version < *version::LATEST { Opening::Plain } else { Opening::Primed }
}

/// A client that does not know the id of its session yet.
struct InitializeGuard<'a> {
    session: &'a McpSession,
    sessions: &'a Sessions,
    is_told: bool,
}

impl InitializeGuard<'_> {
    /// It is told, unless its handshake has failed. Whether it is.
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
