//! Chunk boundaries do not change the lines, and no line exceeds the limit.
#![no_main]

use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use libfuzzer_sys::fuzz_target;
use ostler::pipe::{Lines, ReadError};
use tokio::io::{AsyncRead, ReadBuf};

const LIMIT: usize = 64;

/// Reader that returns chunks of at most this size.
struct Chunks<'a>(&'a [u8], usize);

impl AsyncRead for Chunks<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let (chunk, rest) = self.0.split_at(self.1.min(self.0.len()).min(into.remaining()));
        into.put_slice(chunk);
        self.0 = rest;
        Poll::Ready(Ok(()))
    }
}

fn read(data: &[u8], size: usize) -> (Vec<Vec<u8>>, bool) {
    let (mut lines, mut from, mut found) = (Lines::default(), Chunks(data, size), Vec::new());
    loop {
        match read_once(&mut lines, &mut from, &mut found) {
            Ok(()) => {}
            Err(ReadError::End) => return (found, true),
            Err(ReadError::LongLine(LIMIT)) => return (found, false),
            Err(other) => panic!("{other}"),
        }
    }
}

/// Never pends: the reader always has data.
fn read_once(
    lines: &mut Lines,
    from: &mut Chunks<'_>,
    found: &mut Vec<Vec<u8>>,
) -> Result<(), ReadError> {
    let read = pin!(lines.read(from, LIMIT, |line| found.push(line.to_vec())));
    match read.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("it waits"),
    }
}

/// The same lines by a simple implementation, as the oracle.
fn expected(data: &[u8]) -> (Vec<Vec<u8>>, bool) {
    let mut found = Vec::new();
    let mut rest = data;
    while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
        let line = &rest[..end];
        if line.len() > LIMIT {
            return (found, false);
        }
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        if !line.iter().all(u8::is_ascii_whitespace) {
            found.push(line.to_vec());
        }
        rest = &rest[end + 1..];
    }
    (found, rest.len() <= LIMIT)
}

fuzz_target!(|data: &[u8]| {
    let Some((size, data)) = data.split_first() else { return };
    let whole = expected(data);
    for size in [1, usize::from(*size).max(1), data.len().max(1)] {
        assert_eq!(read(data, size), whole, "in chunks of {size}");
    }
});
