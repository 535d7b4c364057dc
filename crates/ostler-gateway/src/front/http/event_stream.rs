//! One stream to a client: what was said on it, and how far its reader is.

use std::collections::VecDeque;
use std::task::Waker;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::limits::KEPT;

/// What a stream is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The answer to what the client has posted.
    Post,
    /// Whatever else there is to say.
    Listen,
}

/// One stream.
#[derive(Debug)]
pub(super) struct EventStream {
    pub(super) kind: Kind,
    since: Instant,
    /// Answers that are still to come.
    awaited: usize,
    /// What was said, and can still be had; the oldest first.
    lines: VecDeque<Bytes>,
    /// The number of the first of them.
    first: u64,
    /// How many of them its reader has taken.
    taken: usize,
    /// How much that is.
    kept: usize,
    /// How much the rest is.
    waiting: usize,
    /// Whoever reads it now.
    reader: Option<u64>,
    waker: Option<Waker>,
    /// Whether its client knows the numbers of what is said on it.
    is_streamed: bool,
    /// When the last was said on it.
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

    /// So many answers have come.
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

    /// Nothing more is said on it, nor what was said.
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

    /// Whether anybody reads it, or could.
    pub(super) fn is_wanted(&self) -> bool {
        self.reader.is_some() || self.is_streamed
    }

    pub(super) fn is_finished(&self) -> bool {
        self.finished.is_some()
    }

    pub(super) fn is_read_by(&self, reader: u64) -> bool {
        self.reader == Some(reader)
    }

    /// The next line for its reader.
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

    /// Somebody else reads it from now on, who has what was said until `after`.
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

    /// Its reader has gone. Whether nobody can come back to it.
    pub(super) fn leave(&mut self) -> bool {
        self.reader = None;
        if self.kind == Kind::Listen {
            self.finish();
        }
        !self.is_streamed
    }

    /// Whether it was finished so long ago, and nobody reads it.
    pub(super) fn is_over(&self, now: Instant, limit: Duration) -> bool {
        self.reader.is_none()
            && self.finished.is_some_and(|since| now.duration_since(since) >= limit)
    }

    /// Whether somebody has waited for so long, and does not know that it will be a stream.
    pub(super) fn is_late(&self, now: Instant, limit: Duration) -> bool {
        !self.is_streamed && now.duration_since(self.since) >= limit
    }

    pub(super) fn waiting_count(&self) -> usize {
        self.lines.len() - self.taken
    }

    /// How much its reader has not taken.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// How much its reader has taken and may ask for again.
    pub(super) fn kept(&self) -> usize {
        self.kept
    }

    /// Forgets the oldest of what was taken, this much of it. How much that was.
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
