//! Messages for one HTTP client: which event stream carries each of them.
//!
//! A response, and a notification or request that relates to a client's request, goes to the event stream of the POST
//! that carried the request. Other messages go to the newest stream that the client opened with GET. Messages for
//! which no stream is open wait in `unclaimed`, within limits; the oldest are dropped first.
//!
//! A client may resume a stream after a lost connection: delivered events are kept for a while and within a limit, so
//! that they can be sent again. `StreamReader` is the reading end of a stream. A stream has one reader at a time, and
//! resuming it takes it away from the previous reader.

use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::event_stream::{EventStream, Kind};
use super::limits::{BACKLOG, KEPT, KEPT_FOR, LISTENERS, UNCLAIMED, UNCLAIMED_COUNT};
use crate::mutex::lock;
use crate::transport::{ClientSink, Destination, Priority};

/// Outbound messages and event streams of one client.
#[derive(Debug, Default)]
pub(super) struct Outbound(Mutex<Streams>);

#[derive(Debug, Default)]
struct Streams {
    /// Every stream that has a reader, or that the client can resume.
    by_id: BTreeMap<u64, Box<EventStream>>,
    /// Streams that the client opened with GET, newest last.
    listeners: Vec<u64>,
    /// Messages that arrived while no GET stream was open.
    unclaimed: VecDeque<Bytes>,
    /// Last number that was given to a stream or a reader.
    last: u64,
    has_ended: bool,
}

/// Reading end of an event stream, until another reader takes the stream over.
#[derive(Debug)]
pub(super) struct StreamReader {
    outbound: Arc<Outbound>,
    stream: u64,
    number: u64,
}

/// Message with its number in its stream.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) stream: u64,
    pub(super) number: u64,
    pub(super) line: Bytes,
}

/// First message on the stream of a POST, which decides the form of the response.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FirstMessage {
    /// The response, and no other message will follow.
    Response(Bytes),
    /// A message that others will follow, or no message in time: the client gets an event stream.
    Stream,
    /// No response: all requests were cancelled.
    Nothing,
    /// The session has ended.
    End,
}

impl Outbound {
    /// Opens a stream for the responses to this many requests of one POST.
    pub(super) fn post(self: &Arc<Self>, requests: usize) -> StreamReader {
        let now = Instant::now();
        let mut streams = self.streams();
        streams.tidy(now);
        streams.open(self, Kind::Post, requests, now)
    }

    /// Opens a stream for messages that are no response to a POST.
    pub(super) fn listen(self: &Arc<Self>) -> StreamReader {
        let now = Instant::now();
        let mut streams = self.streams();
        streams.tidy(now);
        let reader = streams.open(self, Kind::Listen, 0, now);
        streams.listen_to(reader.stream);
        reader
    }

    /// Resumes a stream after this event. `None` if the stream is forgotten, or never had event ids.
    pub(super) fn resume(self: &Arc<Self>, stream: u64, after: u64) -> Option<StreamReader> {
        let mut streams = self.streams();
        streams.tidy(Instant::now());
        let number = streams.next();
        let found = streams.by_id.get_mut(&stream).filter(|stream| stream.is_streamed())?;
        found.rewind(after, number);
        if found.kind == Kind::Listen {
            streams.listen_to(stream);
        }
        Some(StreamReader { outbound: Arc::clone(self), stream, number })
    }

    /// Turns responses that are later than `limit` into event streams, on which the client sees keep-alive comments.
    pub(super) fn stream_late(&self, limit: Duration) {
        let now = Instant::now();
        let mut streams = self.streams();
        let late = |stream: &&mut Box<EventStream>| stream.is_late(now, limit);
        streams.by_id.values_mut().filter(late).for_each(|stream| {
            stream.upgrade();
            stream.wake();
        });
    }

    /// Ends all streams, after the messages that wait on them.
    pub(super) fn end(&self) {
        let mut streams = self.streams();
        streams.has_ended = true;
        streams.by_id.values_mut().for_each(|stream| stream.wake());
    }

    fn streams(&self) -> MutexGuard<'_, Streams> {
        lock(&self.0)
    }
}

impl Streams {
    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    fn open(
        &mut self,
        outbound: &Arc<Outbound>,
        kind: Kind,
        awaited: usize,
        now: Instant,
    ) -> StreamReader {
        let (stream, number) = (self.next(), self.next());
        self.by_id.insert(stream, Box::new(EventStream::new(kind, awaited, number, now)));
        StreamReader { outbound: Arc::clone(outbound), stream, number }
    }

    fn listen_to(&mut self, stream: u64) {
        self.listeners.retain(|one| *one != stream);
        self.listeners.push(stream);
        if self.listeners.len() > LISTENERS {
            let oldest = self.listeners.remove(0);
            if let Some(oldest) = self.by_id.get_mut(&oldest) {
                oldest.finish();
            }
        }
        let unclaimed = std::mem::take(&mut self.unclaimed);
        if let Some(stream) = self.by_id.get_mut(&stream) {
            for line in unclaimed {
                stream.push(line);
            }
        }
    }

    /// Drops streams that can no longer be resumed, and the oldest delivered events above the limit.
    fn tidy(&mut self, now: Instant) {
        if self.by_id.is_empty() {
            return;
        }
        self.by_id.retain(|_, stream| !stream.is_over(now, KEPT_FOR));
        let mut kept: usize = self.by_id.values().map(|stream| stream.kept()).sum();
        for stream in self.by_id.values_mut() {
            if kept <= KEPT {
                return;
            }
            kept -= stream.forget(kept - KEPT);
        }
    }

    /// Stream of a request, or the newest GET stream if the client can't read that one.
    fn related(&mut self, stream: u64) -> Option<&mut Box<EventStream>> {
        if self.by_id.get(&stream).is_some_and(|stream| stream.is_wanted()) {
            return self.by_id.get_mut(&stream);
        }
        self.newest_listener()
    }

    fn newest_listener(&mut self) -> Option<&mut Box<EventStream>> {
        self.by_id.get_mut(self.listeners.last()?)
    }

    fn unclaimed(&mut self, line: Bytes) {
        self.unclaimed.push_back(line);
        let size = |all: &VecDeque<Bytes>| all.iter().map(Bytes::len).sum::<usize>();
        while self.unclaimed.len() > UNCLAIMED_COUNT || size(&self.unclaimed) > UNCLAIMED {
            self.unclaimed.pop_front();
        }
    }

    /// Whether this many more bytes may wait for the client. A required message may exceed the backlog if it waits
    /// alone.
    fn has_room(&self, length: usize, priority: Priority) -> bool {
        let waiting: usize = self.by_id.values().map(|stream| stream.waiting()).sum();
        match priority {
            Priority::Required => waiting + length <= BACKLOG.max(length),
            Priority::Droppable => waiting + length <= BACKLOG / 2,
        }
    }
}

impl ClientSink for Outbound {
    fn send(&self, line: Bytes, to: Destination, priority: Priority) {
        let mut streams = self.streams();
        let has_room = streams.has_room(line.len(), priority);
        if !has_room && priority == Priority::Droppable {
            return;
        }
        let stream = match to {
            Destination::Response { stream, .. } => streams.by_id.get_mut(&stream),
            Destination::Related { stream } => streams.related(stream),
            Destination::Session => streams.newest_listener(),
        };
        let Some(stream) = stream else {
            if matches!(to, Destination::Related { .. } | Destination::Session) {
                streams.unclaimed(line);
            }
            return;
        };
        if has_room {
            stream.push(line);
        } else {
            // A client that does not read the responses to its requests loses them.
            stream.discard();
        }
        if let Destination::Response { requests, .. } = to {
            stream.answered(requests);
        }
    }

    fn withdraw(&self, stream: u64, requests: usize) {
        if let Some(stream) = self.streams().by_id.get_mut(&stream) {
            stream.answered(requests);
        }
    }

    fn drained(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(std::future::ready(()))
    }

    /// GET streams stay open: the session may attach again.
    fn close(&self, unanswered: &[u64]) {
        let mut streams = self.streams();
        for stream in unanswered {
            if let Some(stream) = streams.by_id.get_mut(stream) {
                stream.finish();
            }
        }
    }
}

impl StreamReader {
    pub(super) fn stream(&self) -> u64 {
        self.stream
    }

    /// Waits until the form of the response is decided.
    pub(super) async fn first(&self) -> FirstMessage {
        std::future::poll_fn(|cx| self.poll_first(cx)).await
    }

    fn poll_first(&self, cx: &mut Context<'_>) -> Poll<FirstMessage> {
        let mut streams = self.outbound.streams();
        let has_ended = streams.has_ended;
        let Some(stream) = streams.by_id.get_mut(&self.stream) else {
            return Poll::Ready(FirstMessage::End);
        };
        match (stream.waiting_count(), stream.is_finished()) {
            (0, _) if has_ended => Poll::Ready(FirstMessage::End),
            (0, true) => Poll::Ready(FirstMessage::Nothing),
            (0, false) if stream.is_streamed() => Poll::Ready(FirstMessage::Stream),
            (0, false) => {
                stream.wait(cx.waker());
                Poll::Pending
            }
            (1, true) => {
                let response = stream.take(self.number).map(|(_, line)| line);
                Poll::Ready(response.map_or(FirstMessage::End, FirstMessage::Response))
            }
            _ => Poll::Ready(FirstMessage::Stream),
        }
    }

    /// Makes the stream resumable: from now on its events have ids.
    pub(super) fn upgrade(&self) {
        if let Some(stream) = self.outbound.streams().by_id.get_mut(&self.stream) {
            stream.upgrade();
        }
    }

    /// Next event; `None` at the end of the stream.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        let mut streams = self.outbound.streams();
        let has_ended = streams.has_ended;
        let Some(stream) = streams.by_id.get_mut(&self.stream) else {
            return Poll::Ready(None);
        };
        if !stream.is_read_by(self.number) {
            return Poll::Ready(None);
        }
        if let Some((number, line)) = stream.take(self.number) {
            return Poll::Ready(Some(Event { stream: self.stream, number, line }));
        }
        if has_ended || stream.is_finished() {
            return Poll::Ready(None);
        }
        stream.wait(cx.waker());
        Poll::Pending
    }
}

impl Drop for StreamReader {
    fn drop(&mut self) {
        let mut streams = self.outbound.streams();
        let Some(stream) = streams.by_id.get_mut(&self.stream) else { return };
        if !stream.is_read_by(self.number) {
            return;
        }
        let kind = stream.kind;
        if stream.leave() {
            streams.by_id.remove(&self.stream);
        }
        if kind == Kind::Listen {
            streams.listeners.retain(|one| *one != self.stream);
        }
    }
}
