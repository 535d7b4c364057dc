//! What was written to a pipe and not taken by its reader yet.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Buf, Bytes};
use tokio::io::AsyncWrite;
use tokio::sync::Notify;
use tokio::time::timeout;

type Pipe = Box<dyn AsyncWrite + Send + Unpin>;

/// Why something was not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The pipe is closed, or nobody reads it any more.
    #[error("the pipe is closed")]
    Closed,
    /// The reader does not read, and so much waits for it already.
    #[error("{0} bytes wait already")]
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
#[derive(Default)]
pub struct Outbox {
    pile: Mutex<Pile>,
    unsent: Notify,
}

#[derive(Default)]
struct Pile {
    /// There from the start until it is closed.
    pipe: Option<Pipe>,
    waiting: VecDeque<Bytes>,
    /// How much waits.
    size: usize,
    /// How much was ever written.
    written: u64,
    /// Writing has failed.
    is_broken: bool,
}

impl Outbox {
    /// From now on something can be written.
    pub fn open(&self, pipe: impl AsyncWrite + Send + Unpin + 'static) {
        self.pile().pipe = Some(Box::new(pipe));
    }

    /// Closes the pipe. What waits is lost.
    pub fn close(&self) {
        let closed = self.pile().close();
        drop(closed);
    }

    /// Writes at once what the pipe has room for; the rest waits, up to `limit` bytes. Never waits itself.
    pub fn send(&self, line: Bytes, limit: usize) -> Result<(), SendError> {
        let mut pile = self.pile();
        let sent = pile.send(line, limit);
        let is_unsent = !pile.waiting.is_empty() || pile.is_broken;
        drop(pile);
        if is_unsent {
            self.unsent.notify_one();
        }
        sent
    }

    /// How much waits to be read.
    pub fn waiting(&self) -> usize {
        self.pile().size
    }

    /// Writes what could not be written at once, for as long as it is polled. Returns only if the
    /// reader reads nothing for `limit()`, or can't any more.
    pub async fn flush(&self, limit: impl Fn() -> Duration) -> Stuck {
        loop {
            self.unsent.notified().await;
            loop {
                let (limit, before) = (limit(), self.pile().written);
                let flushed = poll_fn(|cx| self.pile().poll_flush(cx));
                let in_time = timeout(limit, flushed).await.is_ok();
                if self.pile().is_broken {
                    return Stuck::Closed;
                }
                if in_time {
                    break;
                }
                if self.pile().written == before {
                    return Stuck::NotReading(limit);
                }
            }
        }
    }

    /// Waits until nothing waits any more.
    pub async fn drained(&self) {
        poll_fn(|cx| self.pile().poll_flush(cx)).await;
    }

    /// Writes past what waits, for the only one who writes.
    pub(crate) fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.pile().pipe {
            Some(pipe) => Pin::new(pipe).poll_write(cx, bytes),
            None => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }

    fn pile(&self) -> MutexGuard<'_, Pile> {
        self.pile.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pile {
    fn close(&mut self) -> Option<Pipe> {
        self.waiting = VecDeque::new();
        self.size = 0;
        self.pipe.take()
    }

    fn fail(&mut self) {
        drop(self.close());
        self.is_broken = true;
    }

    fn send(&mut self, mut line: Bytes, limit: usize) -> Result<(), SendError> {
        let pipe = self.pipe.as_mut().ok_or(SendError::Closed)?;
        if self.waiting.is_empty() {
            // Who has to wait for room is the one that flushes.
            let mut nobody = Context::from_waker(Waker::noop());
            match Pin::new(pipe).poll_write(&mut nobody, &line) {
                Poll::Ready(Ok(written)) => {
                    self.written += written as u64;
                    line.advance(written);
                }
                Poll::Ready(Err(_)) => {
                    self.fail();
                    return Err(SendError::Closed);
                }
                Poll::Pending => {}
            }
        }
        if line.is_empty() {
            return Ok(());
        }
        // What is begun has to be finished.
        if self.size + line.len() > limit && !self.waiting.is_empty() {
            return Err(SendError::Full(self.size));
        }
        self.size += line.len();
        self.waiting.push_back(line);
        Ok(())
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while let (Some(pipe), Some(line)) = (&mut self.pipe, self.waiting.front_mut()) {
            match Pin::new(pipe).poll_write(cx, line) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(written)) => {
                    self.written += written as u64;
                    self.size -= written;
                    line.advance(written);
                    if line.is_empty() {
                        self.waiting.pop_front();
                    }
                }
                Poll::Ready(Err(_)) => self.fail(),
            }
        }
        Poll::Ready(())
    }
}

impl fmt::Debug for Outbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbox").field("waiting", &self.waiting()).finish_non_exhaustive()
    }
}
