//! The read side and the write side of a connection, with bounded buffers.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Buffer size in bytes, for each direction. A head has to fit.
pub(super) const BUFFER: usize = 64 << 10;

/// A reader with the bytes that were received and not forwarded yet.
#[derive(Debug)]
pub(super) struct ReadSide<R> {
    reader: R,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
}

impl<R: AsyncRead + Unpin> ReadSide<R> {
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

    /// Reads once into the free part of the buffer. `false`: end of file, or the buffer is full.
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

/// A writer that discards its bytes once the peer is gone, so that the other side's message can be read to its end.
#[derive(Debug)]
pub(super) struct WriteSide<W> {
    writer: W,
    is_gone: bool,
}

impl<W: AsyncWrite + Unpin> WriteSide<W> {
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

    /// Sends end of file.
    pub(super) async fn finish(&mut self) {
        if !self.is_gone {
            self.is_gone = self.writer.shutdown().await.is_err();
        }
    }
}
