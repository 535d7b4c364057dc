//! Transport of a client with a pair of pipes, or with a socket.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use ostler::pipe::{Lines, Outbox, ReadError};
use tokio::io::{AsyncRead, AsyncWrite};

use super::{ClientMessage, ClientSink, Destination, End, Priority, Source};

/// Longest message of a client, in bytes.
const LARGEST: usize = 64 << 20;
/// Bytes that may wait for a client that does not read. Above half of it, droppable messages are dropped.
const BACKLOG: usize = 16 << 20;
/// A client that reads nothing for this long while messages wait counts as gone.
const STALLED: Duration = Duration::from_secs(30);

/// Messages from the client.
#[derive(Debug)]
pub(crate) struct Input<I> {
    pipe: I,
    lines: Lines,
}

/// Messages to the client.
#[derive(Debug, Default)]
pub(crate) struct Output(Outbox);

impl<I> Input<I> {
    pub(crate) fn new(pipe: I) -> Self {
        Self { pipe, lines: Lines::default() }
    }
}

impl<I: AsyncRead + Unpin> Source for Input<I> {
    async fn receive(&mut self, mut each: impl FnMut(ClientMessage)) -> Result<(), End> {
        let each = |line: &[u8]| each(ClientMessage::Line(Bytes::copy_from_slice(line)));
        self.lines.read(&mut self.pipe, LARGEST, each).await.map_err(|error| match error {
            ReadError::End => End::Input,
            ReadError::LongLine(_) | ReadError::Failed(_) => End::Gone,
        })
    }
}

impl Output {
    pub(crate) fn new(pipe: impl AsyncWrite + Send + Unpin + 'static) -> Self {
        let outbox = Outbox::default();
        outbox.open(pipe);
        Self(outbox)
    }

    /// Writes the messages that wait. Returns only if the client stops reading, or its pipe is closed.
    pub(crate) async fn flush(&self) {
        self.0.flush(|| STALLED).await;
    }
}

impl ClientSink for Output {
    fn send(&self, line: Bytes, _: Destination, priority: Priority) {
        if priority == Priority::Droppable && self.0.waiting() > BACKLOG / 2 {
            return;
        }
        if self.0.send(line, BACKLOG).is_err() {
            // The session ends when its task notices that the output is closed.
            self.0.close();
        }
    }

    fn drained(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(self.0.drained())
    }

    fn close(&self, _: &[u64]) {
        self.0.close();
    }
}
