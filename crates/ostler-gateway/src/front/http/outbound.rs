//! Which stream of a client gets a message.
//!
//! Answers, and what came up because of a request, go to the stream of that request; all else to the newest
//! stream on which the client only listens. What nobody listens to waits, as long as it is not much. A stream that was
//! cut can be taken up again: what its client may not have got is kept for a while.

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

/// All that is to be told to one client.
#[derive(Debug, Default)]
pub(super) struct Outbound(Mutex<Streams>);

#[derive(Debug, Default)]
struct Streams {
    /// Every stream that somebody reads, or may take up again.
    by_id: BTreeMap<u64, Box<EventStream>>,
    /// The streams on which it only listens, the newest last.
    listeners: Vec<u64>,
    /// What is for a listener, while there is none.
    unclaimed: VecDeque<Bytes>,
    /// Of streams and of readers.
    last: u64,
    has_ended: bool,
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
    /// Opens a stream for the responses to this many requests of one POST.
    pub(super) fn post(self: &Arc<Self>, requests: usize) -> StreamReader {
        let now = Instant::now();
        let mut streams = self.streams();
        streams.tidy(now);
        streams.open(self, Kind::Post, requests, now)
    }

    /// A stream to listen to.
    pub(super) fn listen(self: &Arc<Self>) -> StreamReader {
        let now = Instant::now();
        let mut streams = self.streams();
        streams.tidy(now);
        let reader = streams.open(self, Kind::Listen, 0, now);
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

    /// The stream of a request, or the newest listener if nobody reads that stream.
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

    /// Whether so much may wait for this client.
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
            // A client that does not read the responses it asked for loses them.
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

    /// Listening streams stay open: the client may come back.
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
