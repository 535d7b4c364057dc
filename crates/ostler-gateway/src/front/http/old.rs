//! The way of speaking HTTP of 2024-11-05: a client opens one stream, on which it is told where to post, and then
//! everything else. Its stay ends with that stream.

use std::sync::Arc;

use hyper::body::Incoming;
use hyper::http::request::Parts;
use hyper::{HeaderMap, Response, StatusCode};

use super::Http;
use super::body::{Body, events, status};
use super::guard::Caller;
use super::headers;
use super::lobby::{Ending, written};
use super::refusal::Refusal;
use super::said::Said;
use super::stay::Letter;
use super::stream::Stream;
use crate::version;

/// Where a client says which session it means.
const SESSION: &str = "session=";

impl Http {
    pub(super) fn open_old(
        &self,
        caller: Caller,
        server: Option<&str>,
        path: &str,
        headers: &HeaderMap,
    ) -> Result<Response<Body>, Refusal> {
        headers::check_get(headers)?;
        let stay = self.open(caller, server, version::OLDEST)?;
        let reader = stay.mail.listen();
        let _ = stay.only.set(reader.track());
        let endpoint = format!("{path}?{SESSION}{}", written(stay.id));
        let attendance = stay.attend();
        let ending = Ending { lobby: Arc::clone(&self.lobby), stay };
        Ok(events(Stream::of_old(reader, &endpoint, attendance, ending)))
    }

    pub(super) async fn post_old(
        &self,
        caller: &Caller,
        server: Option<&str>,
        head: &Parts,
        body: Incoming,
    ) -> Result<Response<Body>, Refusal> {
        headers::check_content(&head.headers)?;
        let mut pairs = head.uri.query().unwrap_or_default().split('&');
        let id = pairs.find_map(|pair| pair.strip_prefix(SESSION)).ok_or(Refusal::NoSession)?;
        let stay = self.lobby.find(id, &caller.pass, server);
        let stay = stay.ok_or(Refusal::UnknownSession)?;
        let track = *stay.only.get().ok_or(Refusal::UnknownSession)?;
        let body = self.room.read(body).await?;
        let Said { words, ids } = Said::parse(&body, &stay.version)?;
        stay.say(Letter { words: Some(words), ids, track })?;
        Ok(status(StatusCode::ACCEPTED))
    }
}
