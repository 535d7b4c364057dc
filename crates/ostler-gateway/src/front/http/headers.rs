//! What the headers of a request say.

use hyper::HeaderMap;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderName};

use super::refusal::Refusal;
use super::stream::place;
use crate::version;

/// Where the id of a session is.
pub(super) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: &str = "mcp-protocol-version";
const LAST_EVENT: &str = "last-event-id";
const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

/// Whether a message can be read, and its sender understands both kinds of answers.
pub(super) fn check_post(headers: &HeaderMap) -> Result<(), Refusal> {
    check_content(headers)?;
    let Accepted { json, events } = accepted(headers);
    if json && events { Ok(()) } else { Err(Refusal::Accept) }
}

/// Whether a message can be read.
pub(super) fn check_content(headers: &HeaderMap) -> Result<(), Refusal> {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if !kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case(JSON)) {
        return Err(Refusal::MediaType);
    }
    Ok(())
}

/// Whether its sender understands a stream.
pub(super) fn check_get(headers: &HeaderMap) -> Result<(), Refusal> {
    if accepted(headers).events { Ok(()) } else { Err(Refusal::AcceptStream) }
}

/// Whether it is written in a version that we know. One that says nothing is in that of its session.
pub(super) fn check_version(headers: &HeaderMap) -> Result<(), Refusal> {
    let known = |value: &hyper::header::HeaderValue| value.to_str().is_ok_and(version::is_known);
    if headers.get_all(VERSION).iter().all(known) { Ok(()) } else { Err(Refusal::Version) }
}

/// The id of the session that it belongs to. One that can't be an id is nobody's.
pub(super) fn session(headers: &HeaderMap) -> Option<&str> {
    headers.get(SESSION).map(|id| id.to_str().unwrap_or_default())
}

/// The stream and the event that its sender has seen last.
pub(super) fn last_event(headers: &HeaderMap) -> Option<(u64, u64)> {
    place(headers.get(LAST_EVENT)?.to_str().ok()?)
}

/// What a sender understands.
#[derive(Default)]
struct Accepted {
    json: bool,
    events: bool,
}

fn accepted(headers: &HeaderMap) -> Accepted {
    let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut accepted = Accepted::default();
    for range in values.flat_map(|value| value.split(',')) {
        let range = range.split(';').next().unwrap_or_default().trim();
        let is_any = range == "*/*";
        accepted.json |= is_any || range == "application/*" || range.eq_ignore_ascii_case(JSON);
        accepted.events |= is_any || range == "text/*" || range.eq_ignore_ascii_case(EVENTS);
    }
    accepted
}
