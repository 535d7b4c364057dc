//! Which stream of a client gets a message.
//!
//! Answers, and what came up because of a request, go to the stream of that request; all else to the newest
//! stream on which the client only listens. What nobody listens to waits, as long as it is not much. A stream that was
//! cut can be taken up again: what its client may not have got is kept for a while.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::event_stream::{EventStream, Kind};
use super::limits::{BACKLOG, KEPT, KEPT_FOR, LISTENERS, UNCLAIMED, UNCLAIMED_COUNT};
use crate::mutex::lock;
use crate::protocol::message::{self, code};
use crate::quota::{Account, InFlightRequest};
use crate::transport::{About, ClientSink, Priority};

/// All that is to be told to one client.
#[derive(Debug, Default)]
pub(super) struct Outbound(Mutex<Streams>);

#[derive(Debug, Default)]
struct Streams {
    /// Every stream that somebody reads, or may take up again.
    by_id: BTreeMap<u64, Box<EventStream>>,
    /// The requests of the client that are not answered yet.
    pending: HashMap<Bytes, PendingRequest>,
    /// The streams on which it only listens, the newest last.
    listeners: Vec<u64>,
    /// What is for a listener, while there is none.
    unclaimed: VecDeque<Bytes>,
    /// Of streams and of readers.
    last: u64,
    has_ended: bool,
}

/// A request that is not answered yet.
#[derive(Debug)]
struct PendingRequest {
    /// The stream that it came with.
    stream: u64,
    #[expect(dead_code, reason = "held until it is dropped")]
    counted: InFlightRequest,
}

/// Whether requests are waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Registration {
    Accepted,
    /// One of them is in flight already.
    Duplicate,
    /// The principal has as many in flight as it may have.
    TooMany,
}

/// Somebody who reads a stream, until somebody else does.
#[derive(Debug)]
pub(super) struct StreamReader {
    outbound: Arc<Outbound>,
    stream: u64,
    number: u64,
}

/// A message with its place in its stream.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) stream: u64,
    pub(super) number: u64,
    pub(super) line: Bytes,
}

/// What comes first in answer to a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FirstMessage {
    /// Its answer, and nothing else.
    Response(Bytes),
    /// Something else, so that there will be several.
    Stream,
    /// It was taken back.
    Nothing,
    /// The session has ended.
    End,
}

impl Outbound {
    /// A stream for the answer to a request that is not heard yet.
    pub(super) fn post(self: &Arc<Self>) -> StreamReader {
        let now = Instant::now();
        let mut streams = self.streams();
        streams.tidy(now);
        streams.open(self, Kind::Post, now)
    }

    /// A stream to listen to.
    pub(super) fn listen(self: &Arc<Self>) -> StreamReader {
        let now = Instant::now();
        let mut streams = self.streams();
        streams.tidy(now);
        let reader = streams.open(self, Kind::Listen, now);
        streams.listen_to(reader.stream);
        reader
    }

    /// Takes a stream up again after this event, if it is still there.
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

    /// From now on what is about these requests goes to this stream, if all of them may be in flight.
    pub(super) fn expect(
        &self,
        ids: &[Bytes],
        stream: u64,
        account: &Arc<Account>,
    ) -> Registration {
        let mut streams = self.streams();
        if ids.iter().any(|id| streams.pending.contains_key(id)) {
            return Registration::Duplicate;
        }
        for id in ids {
            let Some(counted) = account.begin_request() else {
                for id in ids {
                    streams.pending.remove(id);
                }
                return Registration::TooMany;
            };
            streams.pending.insert(id.clone(), PendingRequest { stream, counted });
        }
        if let Some(found) = streams.by_id.get_mut(&stream) {
            found.awaited += ids.len();
        }
        Registration::Accepted
    }

    /// Answers a request that was not heard.
    pub(super) fn refuse(&self, id: &[u8], stream: u64, text: &str) {
        let line = message::error(id, code::INVALID_REQUEST, text, None);
        let mut streams = self.streams();
        if let Some(found) = streams.by_id.get_mut(&stream) {
            found.push(line);
            found.answered(1);
        }
    }

    /// How many requests are not answered yet.
    pub(super) fn in_flight(&self) -> usize {
        self.streams().pending.len()
    }

    /// Whoever has waited for an answer for so long gets a stream, on which it sees that we live.
    pub(super) fn stream_late(&self, limit: Duration) {
        let now = Instant::now();
        let mut streams = self.streams();
        let late = |stream: &&mut Box<EventStream>| stream.is_late(now, limit);
        streams.by_id.values_mut().filter(late).for_each(|stream| {
            stream.upgrade();
            stream.wake();
        });
    }

    /// Nothing will be said any more, on any stream.
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

    fn open(&mut self, outbound: &Arc<Outbound>, kind: Kind, now: Instant) -> StreamReader {
        let (stream, number) = (self.next(), self.next());
        self.by_id.insert(stream, Box::new(EventStream::new(kind, number, now)));
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

    /// Forgets what nobody will ask for any more.
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

    /// Takes a request off the list of those in flight. Its stream, if it is still there.
    fn answered(&mut self, id: &[u8]) -> Option<&mut Box<EventStream>> {
        let stream = self.pending.remove(id)?.stream;
        self.by_id.get_mut(&stream)
    }

    /// The same for several, which came as one.
    fn all_answered(&mut self, ids: &[Bytes]) -> Option<&mut Box<EventStream>> {
        let mut by_id = ids.iter().filter_map(|id| self.pending.remove(id));
        let stream = by_id.next()?.stream;
        by_id.for_each(drop);
        self.by_id.get_mut(&stream)
    }

    fn unclaimed(&mut self, line: Bytes) {
        self.unclaimed.push_back(line);
        let size = |all: &VecDeque<Bytes>| all.iter().map(Bytes::len).sum::<usize>();
        while self.unclaimed.len() > UNCLAIMED_COUNT || size(&self.unclaimed) > UNCLAIMED {
            self.unclaimed.pop_front();
        }
    }

    /// Whether so much may wait for this client.
    fn has_room(&self, length: usize, weight: Priority) -> bool {
        let waiting: usize = self.by_id.values().map(|stream| stream.waiting()).sum();
        match weight {
            Priority::Required => waiting + length <= BACKLOG.max(length),
            Priority::Droppable => waiting + length <= BACKLOG / 2,
        }
    }
}

impl ClientSink for Outbound {
    fn send(&self, line: Bytes, about: About<'_>, weight: Priority) {
        let mut streams = self.streams();
        let has_room = streams.has_room(line.len(), weight);
        if !has_room && weight == Priority::Droppable {
            return;
        }
        let stream = match about {
            About::Response(id) => streams.answered(id),
            About::Batch(ids) => streams.all_answered(ids),
            About::Request(id) => {
                let stream = streams.pending.get(id).map(|post| post.stream);
                let is_read = |stream: &u64| {
                    streams.by_id.get(stream).is_some_and(|stream| stream.is_wanted())
                };
                let stream = stream.filter(is_read).or(streams.listeners.last().copied());
                stream.and_then(|stream| streams.by_id.get_mut(&stream))
            }
            About::Session => {
                let stream = streams.listeners.last().copied();
                stream.and_then(|stream| streams.by_id.get_mut(&stream))
            }
        };
        let Some(stream) = stream else {
            if matches!(about, About::Request(_) | About::Session) {
                streams.unclaimed(line);
            }
            return;
        };
        if has_room {
            stream.push(line);
        } else {
            // Whoever does not take what it has asked for has lost it.
            stream.discard();
        }
        if matches!(about, About::Response(_) | About::Batch(_)) {
            let count = if let About::Batch(ids) = about { ids.len() } else { 1 };
            stream.answered(count);
        }
    }

    fn withdraw(&self, id: &[u8]) {
        if let Some(stream) = self.streams().answered(id) {
            stream.answered(1);
        }
    }

    fn drained(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(std::future::ready(()))
    }

    /// Whoever listens may listen on: the client may come back.
    fn close(&self) {
        let mut streams = self.streams();
        let pending = std::mem::take(&mut streams.pending);
        for post in pending.values() {
            if let Some(stream) = streams.by_id.get_mut(&post.stream) {
                stream.finish();
            }
        }
    }
}

impl StreamReader {
    pub(super) fn stream(&self) -> u64 {
        self.stream
    }

    /// Waits until it is known what comes first.
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

    /// The stream can be taken up again from now on.
    pub(super) fn upgrade(&self) {
        if let Some(stream) = self.outbound.streams().by_id.get_mut(&self.stream) {
            stream.upgrade();
        }
    }

    /// The next message; none if there will be none.
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
