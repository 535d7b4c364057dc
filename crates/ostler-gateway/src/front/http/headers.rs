//! Checks and values of MCP request headers.

use super::head::{Head, text};
use super::refusal::Refusal;
use super::sse::place;
use crate::protocol::version;

/// Header with the session id.
pub(super) const SESSION: &str = "mcp-session-id";
const VERSION: &str = "mcp-protocol-version";
const LAST_EVENT: &str = "last-event-id";
const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

/// Checks that the body is JSON, and that the client accepts both JSON and an event stream.
pub(super) fn check_post(head: &Head<'_>) -> Result<(), Refusal> {
    check_content(head)?;
    let Accepted { json, events } = accepted(head);
    if json && events { Ok(()) } else { Err(Refusal::Accept) }
}

/// Checks that the body is JSON.
pub(super) fn check_content(head: &Head<'_>) -> Result<(), Refusal> {
    let kind = head.first("content-type").unwrap_or_default();
    if !kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case(JSON)) {
        return Err(Refusal::MediaType);
    }
    Ok(())
}

/// Checks that the client accepts an event stream.
pub(super) fn check_get(head: &Head<'_>) -> Result<(), Refusal> {
    if accepted(head).events { Ok(()) } else { Err(Refusal::AcceptStream) }
}

/// Checks that the protocol version is a known one. Without the header, the session's version applies.
pub(super) fn check_version(head: &Head<'_>) -> Result<(), Refusal> {
    let is_known = |value: &[u8]| text(value).is_some_and(version::is_known);
    if head.all(VERSION).all(is_known) { Ok(()) } else { Err(Refusal::Version) }
}

/// Session id of the request. A value that is not text becomes an id that no session has.
pub(super) fn session<'a>(head: &Head<'a>) -> Option<&'a str> {
    head.first(SESSION)
}

/// Stream number and event number of the last event that the client has received.
pub(super) fn last_event(head: &Head<'_>) -> Option<(u64, u64)> {
    place(head.first(LAST_EVENT)?)
}

/// Media types that the client accepts.
#[derive(Default)]
struct Accepted {
    json: bool,
    events: bool,
}

fn accepted(head: &Head<'_>) -> Accepted {
    let values = head.all("accept").filter_map(text);
    let mut accepted = Accepted::default();
    for range in values.flat_map(|value| value.split(',')) {
        let range = range.split(';').next().unwrap_or_default().trim();
        let is_any = range == "*/*";
        accepted.json |= is_any || range == "application/*" || range.eq_ignore_ascii_case(JSON);
        accepted.events |= is_any || range == "text/*" || range.eq_ignore_ascii_case(EVENTS);
    }
    accepted
}
