//! Reads a server's stdout and stderr.

use bytes::Bytes;
use tokio::io::AsyncRead;

use super::{Line, Listener, Talk, lock};
use crate::frame::{Frame, Kind};
use crate::keeper::cause::Fault;
use crate::pipe::{Lines, ReadError, read};

/// Reads stdout to its end: responses go to their calls, other messages to the listener. Returns why reading ended.
pub(in crate::keeper) async fn hear(
    mut output: impl AsyncRead + Unpin,
    talk: &Talk,
    listener: &dyn Listener,
) -> Fault {
    let mut lines = Lines::default();
    loop {
        let limit = talk.line.limits().line;
        let read = lines.read(&mut output, limit, |line| pass_on(line, talk, listener));
        match read.await {
            Ok(()) => {}
            Err(ReadError::LongLine(limit)) => return Fault::LongLine(limit),
            Err(ReadError::End | ReadError::Failed(_)) => return Fault::OutputClosed,
        }
    }
}

/// Reads stderr to its end, so that the server never blocks on it, and keeps the tail.
pub(in crate::keeper) async fn drain_stderr(mut stderr: impl AsyncRead + Unpin, line: &Line) {
    let keep = |chunk: &[u8]| {
        let limit = line.limits().stderr;
        lock(&line.stderr).push(chunk, limit);
    };
    while let Ok(1..) = read(&mut stderr, keep).await {}
}

fn pass_on(line: &[u8], talk: &Talk, listener: &dyn Listener) {
    let Ok(frame) = Frame::parse(Bytes::copy_from_slice(line)) else {
        // Some servers print other text to stdout; it is dropped.
        return talk.line.note_stray(line);
    };
    talk.line.usage.suspect(false);
    let mut calls = lock(&talk.line.calls);
    calls.hear();
    if frame.kind() != Kind::Answer {
        drop(calls);
        // A server that sends messages on its own counts as in use.
        talk.line.usage.mark(tokio::time::Instant::now().into_std());
        return listener.hear(talk, frame);
    }
    let reply = frame.call_id().and_then(|id| calls.take(id));
    drop(calls);
    // The caller may have given up.
    if let Some(reply) = reply {
        reply(Ok(frame));
    }
}
