//! Reads lines without a buffer per pipe: data is read into a buffer that all pipes of a thread share, and only an
//! incomplete line is copied.

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};

use super::splitter::Splitter;

/// Size of a read, in bytes: the default capacity of a pipe.
const CHUNK: usize = 64 << 10;

thread_local! {
    /// Read buffer of this thread, so that idle pipes need none.
    static SCRATCH: Cell<Option<Box<[u8]>>> = const { Cell::new(None) };
}

/// Line reader of one pipe. Holds only an incomplete line between reads.
#[derive(Debug, Default)]
pub struct Lines(Splitter);

/// Why there are no more lines.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A line is longer than allowed.
    #[error("a line is longer than {0} bytes")]
    LongLine(usize),
    /// End of file.
    #[error("the pipe has ended")]
    End,
    /// The pipe failed.
    #[error(transparent)]
    Failed(io::Error),
}

impl Lines {
    /// Reads once and calls `each` for every complete line, without its newline; blank lines are skipped.
    /// Cancel safe.
    pub async fn read(
        &mut self,
        from: &mut (impl AsyncRead + Unpin),
        limit: usize,
        mut each: impl FnMut(&[u8]),
    ) -> Result<(), ReadError> {
        let mut fed = Ok(());
        let read = read(from, |chunk| fed = self.0.feed(chunk, limit, &mut each)).await;
        match read {
            Ok(0) => Err(ReadError::End),
            Ok(_) => fed.map_err(|_| ReadError::LongLine(limit)),
            Err(error) => Err(ReadError::Failed(error)),
        }
    }
}

/// Reads once into the shared buffer and calls `with` on the data. Returns the number of bytes, 0 at the end of file.
/// Cancel safe.
pub async fn read(
    from: &mut (impl AsyncRead + Unpin),
    mut with: impl FnMut(&[u8]),
) -> io::Result<usize> {
    poll_fn(|cx| poll_read(from, cx, &mut with)).await
}

fn poll_read(
    from: &mut (impl AsyncRead + Unpin),
    cx: &mut Context<'_>,
    with: &mut impl FnMut(&[u8]),
) -> Poll<io::Result<usize>> {
    let mut scratch = SCRATCH.take().unwrap_or_else(|| vec![0; CHUNK].into_boxed_slice());
    let mut buffer = ReadBuf::new(&mut scratch);
    let poll = Pin::new(from).poll_read(cx, &mut buffer);
    let result = poll.map_ok(|()| {
        with(buffer.filled());
        buffer.filled().len()
    });
    SCRATCH.set(Some(scratch));
    result
}
