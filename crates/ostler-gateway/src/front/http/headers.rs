//! What the headers of a request say.

use super::head::{Head, text};
use super::refusal::Refusal;
use super::sse::place;
use crate::protocol::version;

/// Where the id of a session is.
pub(super) const SESSION: &str = "mcp-session-id";
const VERSION: &str = "mcp-protocol-version";
const LAST_EVENT: &str = "last-event-id";
const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

/// Whether a message can be read, and its sender understands both kinds of answers.
pub(super) fn check_post(head: &Head<'_>) -> Result<(), Refusal> {
    check_content(head)?;
    let Accepted { json, events } = accepted(head);
    if json && events { Ok(()) } else { Err(Refusal::Accept) }
}

/// Whether a message can be read.
pub(super) fn check_content(head: &Head<'_>) -> Result<(), Refusal> {
    let kind = head.first("content-type").unwrap_or_default();
    if !kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case(JSON)) {
        return Err(Refusal::MediaType);
    }
    Ok(())
}

/// Whether its sender understands a stream.
pub(super) fn check_get(head: &Head<'_>) -> Result<(), Refusal> {
    if accepted(head).events { Ok(()) } else { Err(Refusal::AcceptStream) }
}

/// Whether it is written in a version that we know. One that says nothing is in that of its session.
pub(super) fn check_version(head: &Head<'_>) -> Result<(), Refusal> {
    let is_known = |value: &[u8]| text(value).is_some_and(version::is_known);
    if head.all(VERSION).all(is_known) { Ok(()) } else { Err(Refusal::Version) }
}

/// The id of the session that it belongs to. One that can't be an id is nobody's.
pub(super) fn session<'a>(head: &Head<'a>) -> Option<&'a str> {
    head.first(SESSION)
}

/// The stream and the event that its sender has seen last.
pub(super) fn last_event(head: &Head<'_>) -> Option<(u64, u64)> {
    place(head.first(LAST_EVENT)?)
}

/// What a sender understands.
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
