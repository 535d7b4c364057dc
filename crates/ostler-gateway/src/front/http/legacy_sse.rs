//! HTTP+SSE transport of protocol version 2024-11-05.
//!
//! A client opens one event stream with GET. The first event names the path for its POSTs, which contains the session
//! id; every POST is answered with 202, and all messages for the client go to that one stream. The session ends when
//! the stream is closed, and can't be resumed.

use std::sync::Arc;

use super::Http;
use super::guard::Caller;
use super::head::Head;
use super::headers;
use super::refusal::Refusal;
use super::requests::PostTarget;
use super::response::Response;
use super::sessions::{Ending, written};
use super::sse::SseBody;
use crate::protocol::version;

/// Query parameter with the session id.
const SESSION: &str = "session=";

impl Http {
    pub(super) fn open_legacy_sse(
        &self,
        caller: Caller,
        server: Option<&str>,
        head: &Head<'_>,
    ) -> Result<Response, Refusal> {
        headers::check_get(head)?;
        let session = self.open(caller, server, version::OLDEST)?;
        let reader = session.outbound.listen();
        let _ = session.only.set(reader.stream());
        let endpoint = format!("{}?{SESSION}{}", head.path, written(session.id));
        let presence_guard = session.presence_guard();
        let ending = Ending { sessions: Arc::clone(&self.sessions), session };
        Ok(Response::events(SseBody::legacy(reader, &endpoint, presence_guard, ending)))
    }

    pub(super) fn post_legacy_sse(
        &self,
        caller: &Caller,
        server: Option<&str>,
        head: &Head<'_>,
    ) -> Result<PostTarget, Refusal> {
        headers::check_content(head)?;
        let mut pairs = head.query.split('&');
        let id = pairs.find_map(|pair| pair.strip_prefix(SESSION)).ok_or(Refusal::NoSession)?;
        let session = self.sessions.find(id, &caller.credential, server);
        let session = session.ok_or(Refusal::UnknownSession)?;
        let stream = *session.only.get().ok_or(Refusal::UnknownSession)?;
        Ok(PostTarget::LegacySse(session, stream))
    }
}
