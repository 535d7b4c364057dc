//! Raw pipes of an instance, for a host that brings its own MCP client.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::lease::Use;
use crate::backend::Output;

/// Byte stream to an instance whose server is configured with [`Speech::Bytes`](super::Speech).
///
/// It implements `AsyncRead` and `AsyncWrite`, so every client that takes a stream can use it. It owns
/// no process: when the keeper stops the instance, reads end and writes fail. The instance counts as
/// in use as long as the stream is held.
pub struct Wire {
    output: Output,
    held: Use,
}

impl Wire {
    pub(super) fn new(output: Output, held: Use) -> Self {
        Self { output, held }
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.output).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.held.line().poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.held.line().close_input();
        Poll::Ready(Ok(()))
    }
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire").field("held", &self.held).finish_non_exhaustive()
    }
}
