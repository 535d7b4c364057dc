//! Reading lines.

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};

use super::splitter::Splitter;

/// As much as a pipe holds.
const CHUNK: usize = 64 << 10;

thread_local! {
    /// One for all pipes that are read on this thread: an idle one needs none.
    static SCRATCH: Cell<Option<Box<[u8]>>> = const { Cell::new(None) };
}

/// The lines of one pipe. Whatever it holds between two reads is a line that has not ended.
#[derive(Debug, Default)]
pub struct Lines(Splitter);

/// Why there are no more lines.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A line is longer than allowed.
    #[error("a line is longer than {0} bytes")]
    LongLine(usize),
    /// The pipe has ended.
    #[error("the pipe has ended")]
    End,
    /// The pipe failed.
    #[error(transparent)]
    Failed(io::Error),
}

impl Lines {
    /// Reads once, and gives each line that is complete to `each`, without its end; blank ones are none.
    /// May be dropped while it waits.
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

/// Reads once into memory that is nobody's afterwards, and says how much; nothing at the end. May be dropped while it
/// waits.
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
