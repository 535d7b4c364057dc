//! A stream of events, as the client reads it.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{BufMut, Bytes, BytesMut};
use tokio::time::{Instant, Sleep, sleep};

use super::limits::RETRY;
use super::mcp_session::PresenceGuard;
use super::outbound::{Event, StreamReader};
use super::sessions::Ending;

/// Events are put together up to so much.
const CHUNK: usize = 64 << 10;
/// Not a message.
const COMMENT: &[u8] = b": \n\n";

/// A stream of events.
#[derive(Debug)]
pub(super) struct SseBody {
    reader: StreamReader,
    /// What is said before any message.
    opening: Option<Bytes>,
    alive: Pin<Box<Sleep>>,
    /// As long as it is read its client is there.
    presence_guard: PresenceGuard,
    /// A stay that ends with it.
    _ending: Option<Ending>,
}

/// How a stream begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opening {
    /// With the number of an event that says nothing, so that it can be taken up again from its beginning.
    Primed,
    /// With the first message: some clients take every event for one.
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
            // Whoever waits for the head of the answer gets it at once.
            Opening::Plain => Bytes::from_static(COMMENT),
        };
        Self::beginning(reader, opening, presence_guard, None)
    }

    /// One that begins with the place where its client posts, and whose stay ends with it.
    pub(super) fn of_old(
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

    /// What is to be sent next; none at the end.
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
    // Outside of strings these mean nothing, and inside of them they are written otherwise.
    for byte in &mut chunk[begin..] {
        if matches!(byte, b'\r' | b'\n') {
            *byte = b' ';
        }
    }
    chunk.put_slice(b"\n\n");
}

/// The stream and the event that a client has seen last.
pub(super) fn place(id: &str) -> Option<(u64, u64)> {
    let (stream, number) = id.split_once('.')?;
    Some((stream.parse().ok()?, number.parse().ok()?))
}
