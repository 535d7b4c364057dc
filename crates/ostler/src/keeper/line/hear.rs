//! Reading what a server says.

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::io::{AsyncRead, ReadBuf};

use super::splitter::Splitter;
use super::{Line, Listener, Talk, lock};
use crate::frame::{Frame, Kind};
use crate::keeper::cause::Fault;

/// As much as a pipe holds.
const CHUNK: usize = 64 << 10;

thread_local! {
    /// One for all servers that are read on this thread: an idle one needs none.
    static SCRATCH: Cell<Option<Box<[u8]>>> = const { Cell::new(None) };
}

/// Reads a server's output to its end, and passes every message on.
pub(in crate::keeper) async fn hear(
    mut output: impl AsyncRead + Unpin,
    talk: &Talk,
    listener: &dyn Listener,
) -> Fault {
    let mut splitter = Splitter::default();
    let mut fault = None;
    loop {
        let limit = talk.line.limits().line;
        let each = |line: &[u8]| pass_on(line, talk, listener);
        let read = read(&mut output, |chunk| {
            fault = splitter.feed(chunk, limit, each).err().map(|_| Fault::LongLine(limit));
        });
        match (read.await, fault.take()) {
            (_, Some(fault)) => return fault,
            (Ok(0) | Err(_), None) => return Fault::OutputClosed,
            (Ok(_), None) => {}
        }
    }
}

/// Reads a server's complaints to their end, so that it can always write some.
pub(in crate::keeper) async fn drain_stderr(mut stderr: impl AsyncRead + Unpin, line: &Line) {
    let keep = |chunk: &[u8]| {
        let limit = line.limits().stderr;
        lock(&line.stderr).push(chunk, limit);
    };
    while let Ok(1..) = read(&mut stderr, keep).await {}
}

fn pass_on(line: &[u8], talk: &Talk, listener: &dyn Listener) {
    // What is no message is noise that some servers make.
    let Ok(frame) = Frame::parse(Bytes::copy_from_slice(line)) else { return };
    talk.line.usage.suspect(false);
    let mut calls = lock(&talk.line.calls);
    calls.hear();
    if frame.kind() != Kind::Answer {
        drop(calls);
        // What goes on by itself is in use.
        talk.line.usage.mark(tokio::time::Instant::now().into_std());
        return listener.hear(talk, frame);
    }
    let reply = frame.call_id().and_then(|id| calls.take(id));
    drop(calls);
    // Nobody waits for it if its caller has given up.
    if let Some(reply) = reply {
        reply(Ok(frame));
    }
}

async fn read(
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
