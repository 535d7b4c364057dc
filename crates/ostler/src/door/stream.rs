//! The two ends of a connection through the Door, with bounded buffers.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// How much of a stream is held at a time in one direction. A head has to fit.
pub(super) const BUFFER: usize = 64 << 10;

/// What comes from one side, and has not been passed on yet.
#[derive(Debug)]
pub(super) struct Inlet<R> {
    reader: R,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
}

impl<R: AsyncRead + Unpin> Inlet<R> {
    pub(super) fn new(reader: R) -> Self {
        Self { reader, buffer: vec![0; BUFFER].into_boxed_slice(), start: 0, end: 0 }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    pub(super) fn consume(&mut self, length: usize) {
        self.start += length;
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.end - self.start == self.buffer.len()
    }

    /// Reads on, once, if there is room. `false`: nothing more will come.
    pub(super) async fn fill(&mut self) -> io::Result<bool> {
        if self.end == self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let read = self.reader.read(&mut self.buffer[self.end..]).await?;
        self.end += read;
        Ok(read > 0)
    }
}

/// What goes to one side. Bytes for one that is gone go nowhere, so that what is under way can be
/// finished.
#[derive(Debug)]
pub(super) struct Outlet<W> {
    writer: W,
    is_gone: bool,
}

impl<W: AsyncWrite + Unpin> Outlet<W> {
    pub(super) fn new(writer: W) -> Self {
        Self { writer, is_gone: false }
    }

    pub(super) fn is_gone(&self) -> bool {
        self.is_gone
    }

    pub(super) async fn write(&mut self, bytes: &[u8]) {
        if !self.is_gone {
            self.is_gone = self.writer.write_all(bytes).await.is_err();
        }
    }

    /// Tells the other side that nothing more will come.
    pub(super) async fn finish(&mut self) {
        if !self.is_gone {
            self.is_gone = self.writer.shutdown().await.is_err();
        }
    }
}
