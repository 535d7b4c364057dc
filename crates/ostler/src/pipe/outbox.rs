//! Outbound queue of a pipe that many callers write to.
//!
//! A caller that finds the queue empty and the pipe free takes the pipe and writes its line itself, without a task
//! switch. While one caller writes, others append to the queue and return at once; the writer also writes what was
//! queued meanwhile, several lines per system call. If the pipe is full, the rest stays queued and the flush task
//! ([`Outbox::flush`]) writes it when the reader makes room, or reports that the reader is stuck.

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

/// Lines are copied together into one write up to this size, in bytes; larger ones are not worth the copy.
const MOST_TOGETHER: usize = 16 << 10;
/// Most writes of one caller for others; then the flush task takes over.
const MOST_ROUNDS: usize = 8;

/// Why a line was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The pipe is closed, on this side or by its reader.
    #[error("the pipe is closed")]
    Closed,
    /// The queue is full, with this many bytes.
    #[error("{0} bytes are queued already")]
    Full(usize),
}

/// Why the flush task gave up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stuck {
    /// The reader has read nothing for this long.
    NotReading(Duration),
    /// The reader closed the pipe.
    Closed,
}

/// Outbound queue of a pipe with many writers. Sending never waits.
#[derive(Default)]
pub struct Outbox {
    queue: Mutex<Queue>,
    unsent: Notify,
}

#[derive(Default)]
struct Queue {
    pipe: PipeState,
    waiting: VecDeque<Bytes>,
    /// Bytes that are queued or being written.
    size: usize,
    /// Total bytes written; shows whether the reader makes progress.
    written: u64,
    /// A write has failed.
    is_broken: bool,
}

/// State of the pipe.
#[derive(Default)]
enum PipeState {
    /// Not open yet, or closed.
    #[default]
    Closed,
    Free(Pipe),
    /// A caller writes; the waker of a task that waits for the end of that.
    Writing(Option<Waker>),
}

/// Result of a round of writing.
#[derive(Debug, PartialEq, Eq)]
enum Progress {
    Done,
    /// The pipe is full, or more was queued than one caller should write.
    Unfinished,
    /// A write failed after this many bytes.
    Failed(usize),
}

impl Outbox {
    /// Attaches the pipe.
    pub fn open(&self, pipe: impl AsyncWrite + Send + Unpin + 'static) {
        self.queue().pipe = PipeState::Free(Box::new(pipe));
    }

    /// Closes the pipe and drops the queue.
    pub fn close(&self) {
        let closed = self.queue().close();
        drop(closed);
    }

    /// Writes what the pipe has room for and queues the rest, up to `limit` bytes. Never waits.
    pub fn send(&self, line: Bytes, limit: usize) -> Result<(), SendError> {
        let mut queue = self.queue();
        let Some(pipe) = queue.take_pipe_if_empty() else {
            return self.enqueue(queue, line, limit);
        };
        let length = line.len();
        queue.size += length;
        drop(queue);
        // Only the flush task waits for room.
        let progress = self.write(pipe, line, &mut Context::from_waker(Waker::noop()));
        if progress != Progress::Done {
            self.unsent.notify_one();
        }
        match progress {
            Progress::Failed(written) if written < length => Err(SendError::Closed),
            Progress::Done | Progress::Unfinished | Progress::Failed(_) => Ok(()),
        }
    }

    /// Like [`Outbox::send`], but always queues, so that the flush task writes several lines together.
    pub fn send_along(&self, line: Bytes, limit: usize) -> Result<(), SendError> {
        self.enqueue(self.queue(), line, limit)
    }

    /// Queues a line for the caller that is writing, or for the flush task.
    fn enqueue(
        &self,
        mut queue: MutexGuard<'_, Queue>,
        line: Bytes,
        limit: usize,
    ) -> Result<(), SendError> {
        queue.add(line, limit)?;
        let is_writing = matches!(queue.pipe, PipeState::Writing(_));
        drop(queue);
        if !is_writing {
            self.unsent.notify_one();
        }
        Ok(())
    }

    /// Whether a write has failed, because the reader closed the pipe.
    pub fn is_broken(&self) -> bool {
        self.queue().is_broken
    }

    /// Bytes that are queued or being written.
    pub fn waiting(&self) -> usize {
        self.queue().size
    }

    /// The flush task: writes queued lines as long as it is polled. Returns only if the reader reads
    /// nothing for `limit()`, or has closed the pipe.
    pub async fn flush(&self, limit: impl Fn() -> Duration) -> Stuck {
        loop {
            self.unsent.notified().await;
            if self.queue().is_broken {
                return Stuck::Closed;
            }
            // Lets other tasks queue their lines first, so that one write takes them all.
            yield_now().await;
            loop {
                let (limit, before) = (limit(), self.queue().written);
                let flushed = poll_fn(|cx| self.poll_flush(cx));
                let in_time = timeout(limit, flushed).await.is_ok();
                if self.queue().is_broken {
                    return Stuck::Closed;
                }
                if in_time {
                    break;
                }
                if self.queue().written == before {
                    return Stuck::NotReading(limit);
                }
            }
        }
    }

    /// Waits until the queue is empty, and writes it.
    pub async fn drained(&self) {
        poll_fn(|cx| {
            if let PipeState::Writing(waker) = &mut self.queue().pipe {
                *waker = Some(cx.waker().clone());
                return Poll::Pending;
            }
            self.poll_flush(cx)
        })
        .await;
    }

    /// Writes raw bytes past the queue, for a caller that is the only writer.
    pub(crate) fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.queue().pipe {
            PipeState::Free(pipe) => Pin::new(pipe).poll_write(cx, bytes),
            PipeState::Closed | PipeState::Writing(_) => {
                Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()))
            }
        }
    }

    /// Writes the queue, unless another caller is writing: that one notifies the flush task of the rest.
    fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<()> {
        let borrowed = self.queue().take_pipe_and_lines();
        match borrowed.map(|(pipe, lines)| self.write(pipe, lines, cx)) {
            Some(Progress::Unfinished) => Poll::Pending,
            Some(Progress::Done | Progress::Failed(_)) | None => Poll::Ready(()),
        }
    }

    /// Writes these lines and what is queued meanwhile, then returns the pipe.
    fn write(&self, mut pipe: Pipe, mut lines: Bytes, cx: &mut Context<'_>) -> Progress {
        let mut total = 0;
        for _ in 0..MOST_ROUNDS {
            let length = lines.len();
            let poll = write_all(&mut pipe, &mut lines, cx);
            let written = length - lines.len();
            total += written;
            let mut queue = self.queue();
            queue.note(written);
            match poll {
                Poll::Ready(Ok(())) if queue.waiting.is_empty() => {
                    queue.return_pipe(pipe);
                    return Progress::Done;
                }
                Poll::Ready(Ok(())) => lines = queue.next(),
                Poll::Ready(Err(_)) => {
                    queue.fail();
                    return Progress::Failed(total);
                }
                Poll::Pending => {
                    queue.return_pipe_with(pipe, lines);
                    return Progress::Unfinished;
                }
            }
        }
        self.queue().return_pipe_with(pipe, lines);
        cx.waker().wake_by_ref();
        Progress::Unfinished
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    /// Takes the pipe for writing, if it is free.
    fn take_pipe(&mut self) -> Option<Pipe> {
        match mem::replace(&mut self.pipe, PipeState::Writing(None)) {
            PipeState::Free(pipe) => Some(pipe),
            other => {
                self.pipe = other;
                None
            }
        }
    }

    /// Takes the pipe, if it is free and the queue is empty.
    fn take_pipe_if_empty(&mut self) -> Option<Pipe> {
        if self.waiting.is_empty() { self.take_pipe() } else { None }
    }

    /// Takes the pipe and the next lines of the queue.
    fn take_pipe_and_lines(&mut self) -> Option<(Pipe, Bytes)> {
        if self.waiting.is_empty() {
            return None;
        }
        Some((self.take_pipe()?, self.next()))
    }

    fn add(&mut self, line: Bytes, limit: usize) -> Result<(), SendError> {
        if matches!(self.pipe, PipeState::Closed) {
            return Err(SendError::Closed);
        }
        // A line of any size is accepted if nothing is queued.
        if self.size + line.len() > limit && !self.waiting.is_empty() {
            return Err(SendError::Full(self.size));
        }
        self.size += line.len();
        self.waiting.push_back(line);
        Ok(())
    }

    /// Takes the lines that one write should contain.
    fn next(&mut self) -> Bytes {
        let first = self.waiting.pop_front().unwrap_or_default();
        let fits = |line: &Bytes, length: usize| length + line.len() <= MOST_TOGETHER;
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
        // Closing the pipe meanwhile has reset the size.
        self.size = self.size.saturating_sub(written);
    }

    fn return_pipe(&mut self, pipe: Pipe) {
        // Any other state means that the pipe was closed meanwhile.
        if let PipeState::Writing(waiter) = &mut self.pipe {
            let waiter = waiter.take();
            self.pipe = PipeState::Free(pipe);
            waiter.into_iter().for_each(Waker::wake);
        }
    }

    fn return_pipe_with(&mut self, pipe: Pipe, rest: Bytes) {
        if matches!(self.pipe, PipeState::Writing(_)) {
            self.waiting.push_front(rest);
        }
        self.return_pipe(pipe);
    }

    fn close(&mut self) -> PipeState {
        self.waiting = VecDeque::new();
        self.size = 0;
        let mut pipe = mem::take(&mut self.pipe);
        if let PipeState::Writing(waiter) = &mut pipe {
            waiter.take().into_iter().for_each(Waker::wake);
        }
        pipe
    }

    fn fail(&mut self) {
        drop(self.close());
        self.is_broken = true;
    }
}

/// Writes as much as the pipe has room for.
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
