//! One event stream to a client: its events, and how far the reader is.
//!
//! `lines` holds delivered events followed by waiting ones; `taken` is the border between them. Delivered events stay
//! so that a client which lost its connection can resume after the last event that it has seen (`rewind`); the oldest
//! are forgotten above `KEPT` bytes. A stream is *finished* when no event will follow: a POST stream when all its
//! requests are answered, a GET stream when its reader leaves. A POST stream is *streamed* only if the response
//! became an event stream; before that the client knows no event id, and can't resume it.

use std::collections::VecDeque;
use std::task::Waker;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::limits::KEPT;

/// Purpose of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Responses to the requests of one POST.
    Post,
    /// All other messages, for a client that listens with GET.
    Listen,
}

/// Event stream with its buffered events.
#[derive(Debug)]
pub(super) struct EventStream {
    pub(super) kind: Kind,
    since: Instant,
    /// Number of responses still to come.
    awaited: usize,
    /// Buffered events, oldest first.
    lines: VecDeque<Bytes>,
    /// Number of the first buffered event.
    first: u64,
    /// Number of buffered events that the reader has taken.
    taken: usize,
    /// Bytes of the events that were taken.
    kept: usize,
    /// Bytes of the events that wait.
    waiting: usize,
    /// Number of the current reader.
    reader: Option<u64>,
    waker: Option<Waker>,
    /// Whether the client receives event ids, and so can resume the stream.
    is_streamed: bool,
    /// When the stream was finished; `None` while more events may follow.
    finished: Option<Instant>,
}

impl EventStream {
    pub(super) fn new(kind: Kind, awaited: usize, reader: u64, since: Instant) -> Self {
        Self {
            kind,
            since,
            awaited,
            lines: VecDeque::new(),
            first: 1,
            taken: 0,
            kept: 0,
            waiting: 0,
            reader: Some(reader),
            waker: None,
            is_streamed: kind == Kind::Listen,
            finished: None,
        }
    }

    pub(super) fn push(&mut self, line: Bytes) {
        if self.is_wanted() {
            self.waiting += line.len();
            self.lines.push_back(line);
            self.wake();
        }
    }

    /// Counts this many requests as answered; the last one finishes a POST stream.
    pub(super) fn answered(&mut self, count: usize) {
        self.awaited = self.awaited.saturating_sub(count);
        if self.awaited == 0 && self.kind == Kind::Post {
            self.finish();
        }
    }

    pub(super) fn finish(&mut self) {
        self.finished.get_or_insert_with(Instant::now);
        self.wake();
    }

    /// Finishes the stream, drops its events and detaches its reader.
    pub(super) fn discard(&mut self) {
        self.reader = None;
        self.lines.clear();
        (self.taken, self.kept, self.waiting) = (0, 0, 0);
        self.finish();
    }

    pub(super) fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    pub(super) fn wait(&mut self, waker: &Waker) {
        self.waker = Some(waker.clone());
    }

    pub(super) fn upgrade(&mut self) {
        self.is_streamed = true;
    }

    pub(super) fn is_streamed(&self) -> bool {
        self.is_streamed
    }

    /// Whether the stream has a reader, or can get one.
    pub(super) fn is_wanted(&self) -> bool {
        self.reader.is_some() || self.is_streamed
    }

    pub(super) fn is_finished(&self) -> bool {
        self.finished.is_some()
    }

    pub(super) fn is_read_by(&self, reader: u64) -> bool {
        self.reader == Some(reader)
    }

    /// Next event for this reader: its number and its line.
    pub(super) fn take(&mut self, reader: u64) -> Option<(u64, Bytes)> {
        if !self.is_read_by(reader) {
            return None;
        }
        let line = self.lines.get(self.taken)?.clone();
        let number = self.first + self.taken as u64;
        self.taken += 1;
        self.kept += line.len();
        self.waiting -= line.len();
        self.forget(self.kept.saturating_sub(KEPT));
        Some((number, line))
    }

    /// Hands the stream to a new reader, which has seen the events up to `after`.
    pub(super) fn rewind(&mut self, after: u64, reader: u64) {
        self.reader = Some(reader);
        self.wake();
        let skip = after.saturating_add(1).saturating_sub(self.first);
        self.taken = usize::try_from(skip).unwrap_or(usize::MAX).min(self.lines.len());
        let all = self.kept + self.waiting;
        self.kept = self.lines.iter().take(self.taken).map(Bytes::len).sum();
        self.waiting = all - self.kept;
        if self.kind == Kind::Listen {
            self.finished = None;
        }
    }

    /// Detaches the reader. True if the stream can't be resumed, and so can be removed.
    pub(super) fn leave(&mut self) -> bool {
        self.reader = None;
        if self.kind == Kind::Listen {
            self.finish();
        }
        !self.is_streamed
    }

    /// Whether the stream was finished at least `limit` ago and has no reader.
    pub(super) fn is_over(&self, now: Instant, limit: Duration) -> bool {
        self.reader.is_none()
            && self.finished.is_some_and(|since| now.duration_since(since) >= limit)
    }

    /// Whether the client has waited at least `limit` for a response that is not streamed yet.
    pub(super) fn is_late(&self, now: Instant, limit: Duration) -> bool {
        !self.is_streamed && now.duration_since(self.since) >= limit
    }

    pub(super) fn waiting_count(&self) -> usize {
        self.lines.len() - self.taken
    }

    /// Bytes of the events that wait for the reader.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Bytes of the events that were taken and can be sent again.
    pub(super) fn kept(&self) -> usize {
        self.kept
    }

    /// Forgets the oldest taken events, until at least `enough` bytes are freed. Returns the number of bytes freed.
    pub(super) fn forget(&mut self, enough: usize) -> usize {
        let mut forgotten = 0;
        while self.taken > 0 && forgotten < enough {
            forgotten += self.lines.pop_front().map_or(0, |line| line.len());
            self.taken -= 1;
            self.first += 1;
        }
        self.kept -= forgotten;
        forgotten
    }
}
