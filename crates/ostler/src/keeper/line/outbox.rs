//! What was said to a server and not taken by it yet.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::{Buf, Bytes};
use tokio::io::AsyncWrite;
use tokio::sync::Notify;

use super::{CallError, Input};

#[derive(Default)]
pub(super) struct Outbox {
    /// There from the start until the input is closed.
    input: Option<Input>,
    waiting: VecDeque<Bytes>,
    /// How much waits.
    size: usize,
    /// How much was ever written.
    written: u64,
    /// Writing has failed.
    is_broken: bool,
    unsent: Arc<Notify>,
}

impl Outbox {
    pub(super) fn open(&mut self, input: Input) {
        self.input = Some(input);
    }

    pub(super) fn close(&mut self) {
        self.input = None;
        self.waiting = VecDeque::new();
        self.size = 0;
    }

    pub(super) fn unsent(&self) -> Arc<Notify> {
        Arc::clone(&self.unsent)
    }

    pub(super) fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Nobody reads it any more, which the driver has to hear.
    fn fail(&mut self) {
        self.close();
        self.is_broken = true;
        self.unsent.notify_one();
    }

    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// Writes at once what the pipe has room for; the rest waits, up to `limit` bytes.
    pub(super) fn send(&mut self, mut line: Bytes, limit: usize) -> Result<(), CallError> {
        let input = self.input.as_mut().ok_or(CallError::Closed)?;
        if self.waiting.is_empty() {
            // Who has to wait for room is the driver, not the caller.
            let mut nobody = Context::from_waker(Waker::noop());
            match Pin::new(input).poll_write(&mut nobody, &line) {
                Poll::Ready(Ok(written)) => {
                    self.written += written as u64;
                    line.advance(written);
                }
                Poll::Ready(Err(_)) => {
                    self.fail();
                    return Err(CallError::Closed);
                }
                Poll::Pending => {}
            }
        }
        if line.is_empty() {
            return Ok(());
        }
        // What is begun has to be finished.
        if self.size + line.len() > limit && !self.waiting.is_empty() {
            return Err(CallError::Backlog(self.size));
        }
        self.size += line.len();
        self.waiting.push_back(line);
        self.unsent.notify_one();
        Ok(())
    }

    pub(super) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.input {
            Some(input) => Pin::new(input).poll_write(cx, bytes),
            None => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }

    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while let (Some(input), Some(line)) = (&mut self.input, self.waiting.front_mut()) {
            match Pin::new(input).poll_write(cx, line) {
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
