//! What was written to a pipe and not taken by its reader yet.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::mem;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::AsyncWrite;
use tokio::sync::Notify;
use tokio::task::yield_now;
use tokio::time::timeout;

type Pipe = Box<dyn AsyncWrite + Send + Unpin>;

/// Lines are written together up to this much: a larger one is not worth being copied.
const TOGETHER: usize = 16 << 10;
/// Whoever has written so often for others goes on with what it has to do itself.
const TURNS: usize = 8;

/// Why something was not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The pipe is closed, or nobody reads it any more.
    #[error("the pipe is closed")]
    Closed,
    /// The reader does not read, and so much waits for it already.
    #[error("{0} bytes are queued already")]
    Full(usize),
}

/// Why nothing can be written any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stuck {
    /// The reader has not read anything for so long.
    NotReading(Duration),
    /// Nobody reads it any more.
    Closed,
}

/// A pipe that many write to: each of them as far as there is room, the rest by one task.
///
/// One writes at a time, and nobody waits for that: what others want to write meanwhile is written along, as one.
#[derive(Default)]
pub struct Outbox {
    state: Mutex<State>,
    unsent: Notify,
}

#[derive(Default)]
struct State {
    place: Place,
    waiting: VecDeque<Bytes>,
    /// How much waits, or is being written.
    size: usize,
    /// How much was ever written.
    written: u64,
    /// Writing has failed.
    is_broken: bool,
}

/// Where the pipe is.
#[derive(Default)]
enum Place {
    /// It is not open yet, or not any more.
    #[default]
    Closed,
    Here(Pipe),
    /// Somebody writes. Who waits for the end of that, if anybody does.
    Lent(Option<Waker>),
}

/// What somebody who writes has come to.
#[derive(Debug, PartialEq, Eq)]
enum Progress {
    Done,
    /// The pipe is full, or others have so much to say that one of them should go on.
    Unfinished,
    /// After so many bytes.
    Failed(usize),
}

impl Outbox {
    /// From now on something can be written.
    pub fn open(&self, pipe: impl AsyncWrite + Send + Unpin + 'static) {
        self.state().place = Place::Here(Box::new(pipe));
    }

    /// Closes the pipe. What waits is lost.
    pub fn close(&self) {
        let closed = self.state().close();
        drop(closed);
    }

    /// Writes at once what the pipe has room for; the rest waits, up to `limit` bytes. Never waits itself.
    pub fn send(&self, line: Bytes, limit: usize) -> Result<(), SendError> {
        let mut state = self.state();
        let Some(pipe) = state.borrow_at_once() else {
            return self.leave(state, line, limit);
        };
        let length = line.len();
        state.size += length;
        drop(state);
        // Who has to wait for room is the one that flushes.
        let progress = self.write(pipe, line, &mut Context::from_waker(Waker::noop()));
        if progress != Progress::Done {
            self.unsent.notify_one();
        }
        match progress {
            Progress::Failed(written) if written < length => Err(SendError::Closed),
            Progress::Done | Progress::Unfinished | Progress::Failed(_) => Ok(()),
        }
    }

    /// The same, but it is written together with what others say at this moment.
    pub fn send_along(&self, line: Bytes, limit: usize) -> Result<(), SendError> {
        self.leave(self.state(), line, limit)
    }

    /// Leaves it to whoever writes, or flushes.
    fn leave(
        &self,
        mut state: MutexGuard<'_, State>,
        line: Bytes,
        limit: usize,
    ) -> Result<(), SendError> {
        state.add(line, limit)?;
        let is_lent = matches!(state.place, Place::Lent(_));
        drop(state);
        if !is_lent {
            self.unsent.notify_one();
        }
        Ok(())
    }

    /// How much waits to be read.
    pub fn waiting(&self) -> usize {
        self.state().size
    }

    /// Writes what could not be written at once, for as long as it is polled. Returns only if the
    /// reader reads nothing for `limit()`, or can't any more.
    pub async fn flush(&self, limit: impl Fn() -> Duration) -> Stuck {
        loop {
            self.unsent.notified().await;
            // Whoever is about to say something does so first: to write it along costs nothing.
            yield_now().await;
            loop {
                let (limit, before) = (limit(), self.state().written);
                let flushed = poll_fn(|cx| self.poll_flush(cx));
                let in_time = timeout(limit, flushed).await.is_ok();
                if self.state().is_broken {
                    return Stuck::Closed;
                }
                if in_time {
                    break;
                }
                if self.state().written == before {
                    return Stuck::NotReading(limit);
                }
            }
        }
    }

    /// Waits until nothing waits any more.
    pub async fn drained(&self) {
        poll_fn(|cx| {
            if let Place::Lent(waker) = &mut self.state().place {
                *waker = Some(cx.waker().clone());
                return Poll::Pending;
            }
            self.poll_flush(cx)
        })
        .await;
    }

    /// Writes past what waits, for the only one who writes.
    pub(crate) fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.state().place {
            Place::Here(pipe) => Pin::new(pipe).poll_write(cx, bytes),
            Place::Closed | Place::Lent(_) => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }

    /// Writes what waits, unless somebody else is about to, who says what is left.
    fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<()> {
        let borrowed = self.state().borrow_for_waiting();
        match borrowed.map(|(pipe, lines)| self.write(pipe, lines, cx)) {
            Some(Progress::Unfinished) => Poll::Pending,
            Some(Progress::Done | Progress::Failed(_)) | None => Poll::Ready(()),
        }
    }

    /// Writes these lines and what is added meanwhile, and gives the pipe back.
    fn write(&self, mut pipe: Pipe, mut lines: Bytes, cx: &mut Context<'_>) -> Progress {
        let mut total = 0;
        for _ in 0..TURNS {
            let length = lines.len();
            let poll = write_all(&mut pipe, &mut lines, cx);
            let written = length - lines.len();
            total += written;
            let mut state = self.state();
            state.note(written);
            match poll {
                Poll::Ready(Ok(())) if state.waiting.is_empty() => {
                    state.give_back(pipe);
                    return Progress::Done;
                }
                Poll::Ready(Ok(())) => lines = state.next(),
                Poll::Ready(Err(_)) => {
                    state.fail();
                    return Progress::Failed(total);
                }
                Poll::Pending => {
                    state.give_back_with(pipe, lines);
                    return Progress::Unfinished;
                }
            }
        }
        self.state().give_back_with(pipe, lines);
        cx.waker().wake_by_ref();
        Progress::Unfinished
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The pipe, for somebody who writes.
    fn borrow(&mut self) -> Option<Pipe> {
        match mem::replace(&mut self.place, Place::Lent(None)) {
            Place::Here(pipe) => Some(pipe),
            other => {
                self.place = other;
                None
            }
        }
    }

    /// The pipe, if nothing waits for it.
    fn borrow_at_once(&mut self) -> Option<Pipe> {
        if self.waiting.is_empty() { self.borrow() } else { None }
    }

    /// The pipe, and what waits for it.
    fn borrow_for_waiting(&mut self) -> Option<(Pipe, Bytes)> {
        if self.waiting.is_empty() {
            return None;
        }
        Some((self.borrow()?, self.next()))
    }

    fn add(&mut self, line: Bytes, limit: usize) -> Result<(), SendError> {
        if matches!(self.place, Place::Closed) {
            return Err(SendError::Closed);
        }
        // What is begun has to be finished.
        if self.size + line.len() > limit && !self.waiting.is_empty() {
            return Err(SendError::Full(self.size));
        }
        self.size += line.len();
        self.waiting.push_back(line);
        Ok(())
    }

    /// What is worth being written at once of what waits.
    fn next(&mut self) -> Bytes {
        let first = self.waiting.pop_front().unwrap_or_default();
        let fits = |line: &Bytes, length: usize| length + line.len() <= TOGETHER;
        if !self.waiting.front().is_some_and(|second| fits(second, first.len())) {
            return first;
        }
        let mut lines = BytesMut::from(first);
        while let Some(line) = self.waiting.pop_front_if(|line| fits(line, lines.len())) {
            lines.extend_from_slice(&line);
        }
        lines.freeze()
    }

    fn note(&mut self, written: usize) {
        self.written += written as u64;
        // It may have been closed meanwhile, when nothing waits any more.
        self.size = self.size.saturating_sub(written);
    }

    fn give_back(&mut self, pipe: Pipe) {
        // Otherwise it was closed meanwhile.
        if let Place::Lent(waiter) = &mut self.place {
            let waiter = waiter.take();
            self.place = Place::Here(pipe);
            waiter.into_iter().for_each(Waker::wake);
        }
    }

    fn give_back_with(&mut self, pipe: Pipe, rest: Bytes) {
        if matches!(self.place, Place::Lent(_)) {
            self.waiting.push_front(rest);
        }
        self.give_back(pipe);
    }

    fn close(&mut self) -> Place {
        self.waiting = VecDeque::new();
        self.size = 0;
        let mut place = mem::take(&mut self.place);
        if let Place::Lent(waiter) = &mut place {
            waiter.take().into_iter().for_each(Waker::wake);
        }
        place
    }

    fn fail(&mut self) {
        drop(self.close());
        self.is_broken = true;
    }
}

/// Writes all of it, as far as there is room.
fn write_all(pipe: &mut Pipe, lines: &mut Bytes, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
    while !lines.is_empty() {
        let written = ready!(Pin::new(&mut *pipe).poll_write(cx, lines))?;
        if written == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        lines.advance(written);
    }
    Poll::Ready(Ok(()))
}

impl fmt::Debug for Outbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbox").field("waiting", &self.waiting()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
