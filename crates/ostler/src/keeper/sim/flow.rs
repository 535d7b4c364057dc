//! What a simulated server says, and when.

use std::collections::VecDeque;
use std::task::Waker;
use std::time::Instant;

/// Its output: what will be said at which time, and when it ends.
#[derive(Debug, Default)]
pub(super) struct Flow {
    said: VecDeque<(Instant, Vec<u8>)>,
    closed: Option<Instant>,
    waker: Option<Waker>,
}

/// What a reader finds.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    Bytes(Vec<u8>),
    End,
    /// Nothing before this time, if ever.
    Nothing(Option<Instant>),
}

impl Flow {
    pub(super) fn say(&mut self, at: Instant, bytes: &[u8]) {
        let index = self.said.partition_point(|(due, _)| *due <= at);
        self.said.insert(index, (at, bytes.to_vec()));
        self.wake();
    }

    pub(super) fn close(&mut self, at: Instant) {
        if self.closed.is_none_or(|closed| closed > at) {
            self.closed = Some(at);
            self.said.retain(|(due, _)| *due <= at);
            self.wake();
        }
    }

    /// At most `most` bytes of what was said until now. Whoever finds nothing is woken when that changes.
    pub(super) fn take(&mut self, most: usize, now: Instant, waker: &Waker) -> Found {
        let due = |(due, _): &(Instant, Vec<u8>)| *due <= now;
        if let Some((_, bytes)) = self.said.front_mut().filter(|said| due(said)) {
            let taken: Vec<u8> = bytes.drain(..most.min(bytes.len())).collect();
            if bytes.is_empty() {
                self.said.pop_front();
            }
            return Found::Bytes(taken);
        }
        if self.closed.is_some_and(|closed| closed <= now) {
            return Found::End;
        }
        self.waker = Some(waker.clone());
        Found::Nothing(self.said.front().map(|(due, _)| *due).into_iter().chain(self.closed).min())
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}
