//! Event streams of a remote server, and their resumption.
//!
//! `follow` reads the response stream of one request until the response arrives. If the stream breaks, it is resumed
//! with `Last-Event-ID`; the request itself is never sent again, so a stream without event ids cannot be resumed and
//! the call fails. `listen` reads the standalone stream of server notifications and reopens it as long as the session
//! lasts. `hear_all` reads the only stream of an HTTP+SSE server, which cannot be resumed: its end is the end of the
//! session.
//!
//! Reconnects wait for the server's `retry` time or back off exponentially. Attempts without progress are counted, and
//! more than `RemoteLimits::attempts` in a row end the stream.

use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::StatusCode;
use hyper::body::Incoming;
use ostler::{Frame, Kind};
use tokio::time::Instant;

use super::events::Events;
use super::failure::Failure;
use super::limits::RemoteLimits;
use super::link::Link;
use super::outlet::frame_of;

/// Result of reading a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Read {
    /// The awaited response arrived.
    Answered,
    /// The stream ended or broke after this many messages.
    Ended(usize),
}

/// Reads the response stream of a request up to the response, resuming it as often as necessary.
pub(super) async fn follow(
    link: &Link,
    request: &Frame,
    mut body: Incoming,
) -> Result<(), Failure> {
    let mut events = Events::new(link.limits.message);
    let mut vain = 0;
    loop {
        let last = events.last_id.clone();
        match read(link, &mut body, &mut events, |frame| is_answer(frame, request)).await? {
            Read::Answered => {
                // The connection becomes reusable if the server ends the stream in time.
                let rest = async { while let Some(Ok(_)) = body.frame().await {} };
                let _ = tokio::time::timeout(link.limits.linger, rest).await;
                return Ok(());
            }
            Read::Ended(0) if events.last_id == last => vain += 1,
            // Progress resets the count: a server may disconnect as often as it likes between messages.
            Read::Ended(_) => vain = 1,
        }
        body = resume(link, &mut events, &mut vain).await?;
    }
}

/// Reopens a broken stream after the last event id. Never sends the request again.
async fn resume(link: &Link, events: &mut Events, vain: &mut u32) -> Result<Incoming, Failure> {
    loop {
        let last = events.last_id.clone().ok_or(Failure::Dropped)?;
        if *vain > link.limits.attempts {
            return Err(Failure::Dropped);
        }
        tokio::time::sleep(wait(events, *vain, &link.limits)).await;
        match link.stream(Some(&last)).await {
            Ok(body) => {
                events.restart();
                return Ok(body);
            }
            Err(failure) if failure.is_final() => {
                return Err(Failure::NotResumed(failure.to_string()));
            }
            Err(_) => *vain += 1,
        }
    }
}

/// Reads the standalone event stream, reopening it until the session ends or the server rejects it.
pub(super) async fn listen(link: &Link) {
    let mut events = Events::new(link.limits.message);
    let (mut vain, mut failures, mut was_open) = (0, 0, false);
    loop {
        match link.stream(events.last_id.as_deref()).await {
            Ok(mut body) => {
                (failures, was_open) = (0, true);
                events.restart();
                let begin = Instant::now();
                match read(link, &mut body, &mut events, |_| false).await {
                    // A stream that stayed open for long counts as progress even without a message.
                    Ok(Read::Ended(0)) if begin.elapsed() < link.limits.retry_most => vain += 1,
                    Ok(_) => vain = 0,
                    Err(failure) => return link.lose(&failure),
                }
            }
            Err(failure @ Failure::Forgotten(_)) if was_open => return link.lose(&failure),
            // The server offers no such stream; some say so with 404. If the session itself is gone, the next call
            // finds out.
            Err(
                Failure::Status { status: StatusCode::METHOD_NOT_ALLOWED, .. }
                | Failure::Forgotten(_),
            ) => return,
            Err(failure) if failure.is_final() => {
                let text = format!("its unsolicited messages are lost: {failure}");
                return link.out.complain(&text).await;
            }
            Err(failure) => {
                failures += 1;
                vain += 1;
                if failures > link.limits.attempts {
                    return link.lose(&failure);
                }
            }
        }
        tokio::time::sleep(wait(&events, vain.max(1), &link.limits)).await;
    }
}

/// Reads the only stream of an HTTP+SSE server, which carries all responses and cannot be resumed.
pub(super) async fn hear_all(link: &Link, mut body: Incoming, mut events: Events) {
    match read(link, &mut body, &mut events, |_| false).await {
        Ok(_) => link.lose(&Failure::Ended),
        Err(failure) => link.lose(&failure),
    }
}

async fn read(
    link: &Link,
    body: &mut Incoming,
    events: &mut Events,
    is_last: impl Fn(&Frame) -> bool,
) -> Result<Read, Failure> {
    let mut count = 0;
    while let Some(Ok(frame)) = body.frame().await {
        let mut found = Vec::new();
        let data = frame.into_data().unwrap_or_default();
        let fed = events.feed(&data, |event| found.push(event));
        for event in found {
            // An event without data only carries an event id.
            if event.data.is_empty() || !matches!(event.name.as_slice(), b"" | b"message") {
                continue;
            }
            count += 1;
            let Some(message) = frame_of(&event.data) else {
                link.out.complain("an event is no message").await;
                continue;
            };
            let is_last = is_last(&message);
            if is_last {
                link.note_version(&message);
            }
            link.out.say(&message.line()).await;
            if is_last {
                return Ok(Read::Answered);
            }
        }
        fed.map_err(|_| Failure::Long(link.limits.message))?;
    }
    Ok(Read::Ended(count))
}

/// Whether a message is the response to a request. Some servers return a numeric id as a string.
pub(super) fn is_answer(frame: &Frame, request: &Frame) -> bool {
    frame.kind() == Kind::Answer && bare(frame.id()) == bare(request.id())
}

fn bare(id: &[u8]) -> &[u8] {
    id.strip_prefix(b"\"").and_then(|id| id.strip_suffix(b"\"")).unwrap_or(id)
}

/// Delay before the next attempt: the server's `retry` time or exponential backoff, at most `retry_most`.
fn wait(events: &Events, vain: u32, limits: &RemoteLimits) -> Duration {
    let own = || limits.retry * 2u32.saturating_pow(vain.saturating_sub(1));
    events.retry.map_or_else(own, Duration::from_millis).min(limits.retry_most)
}
