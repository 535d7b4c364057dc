//! Scheduled output of a simulated server.

use std::collections::VecDeque;
use std::task::Waker;
use std::time::Instant;

/// Output with the times at which it appears, and the time at which the pipe closes.
#[derive(Debug, Default)]
pub(super) struct SimOutput {
    said: VecDeque<(Instant, Vec<u8>)>,
    closed: Option<Instant>,
    waker: Option<Waker>,
}

/// Result of a read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    Bytes(Vec<u8>),
    End,
    /// Nothing before this time; `None` if nothing is scheduled.
    Nothing(Option<Instant>),
}

impl SimOutput {
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

    /// Takes at most `most` bytes of the output so far. If there is none, `waker` is woken on a change.
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
