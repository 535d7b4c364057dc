//! Body of a `text/event-stream` response.
//!
//! `SseBody` turns the messages of a `StreamReader` into events with the id `STREAM.NUMBER`, which a client sends
//! back as `Last-Event-ID` to resume the stream. Events that are ready go out together, up to `CHUNK` bytes. An idle
//! stream carries a comment every `keep_alive`, so that the client sees that the gateway lives and the gateway
//! notices lost connections. The body holds a `PresenceGuard`: the client is present as long as the stream is open.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{BufMut, Bytes, BytesMut};
use tokio::time::{Instant, Sleep, sleep};

use super::limits::RETRY;
use super::mcp_session::PresenceGuard;
use super::outbound::{Event, StreamReader};
use super::sessions::Ending;

/// Size in bytes at which collected events are sent.
const CHUNK: usize = 64 << 10;
/// Comment of the event stream format, which clients ignore.
const COMMENT: &[u8] = b": \n\n";

/// Body of a response that is an event stream.
#[derive(Debug)]
pub(super) struct SseBody {
    reader: StreamReader,
    /// Bytes sent before any message.
    opening: Option<Bytes>,
    alive: Pin<Box<Sleep>>,
    /// Marks the client as present while the stream is open.
    presence_guard: PresenceGuard,
    /// Ends the session with the stream, for the HTTP+SSE transport.
    _ending: Option<Ending>,
}

/// How a stream begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opening {
    /// With an event that has an id but no message, so that the client can resume the stream from its beginning.
    Primed,
    /// With a comment only: clients of older versions take every event for a message.
    Plain,
}

impl SseBody {
    pub(super) fn new(
        reader: StreamReader,
        opening: Opening,
        presence_guard: PresenceGuard,
    ) -> Self {
        let opening = match opening {
            Opening::Primed => {
                format!("id: {}.0\nretry: {RETRY}\ndata: \n\n", reader.stream()).into()
            }
            // Sends something at once, because some clients wait for the response head.
            Opening::Plain => Bytes::from_static(COMMENT),
        };
        Self::beginning(reader, opening, presence_guard, None)
    }

    /// Body of the HTTP+SSE transport: begins with the path for POSTs, and ends the session when it is dropped.
    pub(super) fn legacy(
        reader: StreamReader,
        endpoint: &str,
        presence_guard: PresenceGuard,
        ending: Ending,
    ) -> Self {
        let opening = format!("event: endpoint\ndata: {endpoint}\n\n").into();
        Self::beginning(reader, opening, presence_guard, Some(ending))
    }

    fn beginning(
        reader: StreamReader,
        opening: Bytes,
        presence_guard: PresenceGuard,
        ending: Option<Ending>,
    ) -> Self {
        reader.upgrade();
        let alive = Box::pin(sleep(presence_guard.keep_alive()));
        Self { reader, opening: Some(opening), alive, presence_guard, _ending: ending }
    }

    /// Next bytes to send; `None` at the end.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(opening) = self.opening.take() {
            return Poll::Ready(Some(opening));
        }
        let mut chunk = BytesMut::new();
        while chunk.len() < CHUNK {
            match self.reader.poll_next(cx) {
                Poll::Ready(Some(event)) => put(&mut chunk, &event),
                Poll::Ready(None) if chunk.is_empty() => return Poll::Ready(None),
                Poll::Ready(None) | Poll::Pending => break,
            }
        }
        if chunk.is_empty() {
            ready!(self.alive.as_mut().poll(cx));
            chunk.put_slice(COMMENT);
        }
        self.alive.as_mut().reset(Instant::now() + self.presence_guard.keep_alive());
        Poll::Ready(Some(chunk.freeze()))
    }
}

fn put(chunk: &mut BytesMut, Event { stream, number, line }: &Event) {
    chunk.put_slice(format!("id: {stream}.{number}\ndata: ").as_bytes());
    let begin = chunk.len();
    chunk.put_slice(line);
    // JSON has raw line ends only between tokens, where a space means the same; strings escape them.
    for byte in &mut chunk[begin..] {
        if matches!(byte, b'\r' | b'\n') {
            *byte = b' ';
        }
    }
    chunk.put_slice(b"\n\n");
}

/// Stream number and event number of a `Last-Event-ID`.
pub(super) fn place(id: &str) -> Option<(u64, u64)> {
    let (stream, number) = id.split_once('.')?;
    Some((stream.parse().ok()?, number.parse().ok()?))
}
