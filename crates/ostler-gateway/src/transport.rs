//! Interface between a client session and the transport of its client.
//!
//! A transport has a `Source` of the client's messages and a `ClientSink` for messages to the client. A pipe
//! transport implements both on one pair of byte streams. The HTTP front hands messages to the session itself
//! (`NoSource`), and its sink is the `Outbound` of an MCP session, which has several event streams.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use ostler::Frame;

use crate::quota::{Charge, RequestPermits};

pub(crate) mod pipe;

/// Destination of the responses to a message.
#[derive(Debug, Default)]
pub(crate) struct ReturnAddress {
    /// Event stream that the message came with; 0 on a pipe, which has only one way back.
    pub(crate) stream: u64,
    /// Permits that its requests hold until they are closed, if the transport limits them.
    pub(crate) permits: Option<RequestPermits>,
}

#[cfg(test)]
impl ReturnAddress {
    pub(crate) fn stream(stream: u64) -> Self {
        Self { stream, permits: None }
    }
}

/// Event stream that gets a message. A pipe carries all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    /// The stream that the requests came with; the message answers this many of them.
    Response { stream: u64, requests: usize },
    /// The stream of the request that the message relates to, or a stream of the session if the client can't read
    /// that one.
    Related { stream: u64 },
    /// A stream that is not bound to a request.
    Session,
}

/// Whether the sink may drop a message when the client does not keep up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Priority {
    /// The sink delivers the message or ends the stream.
    Required,
    /// The sink may drop the message.
    Droppable,
}

/// Sends messages to a client.
pub(crate) trait ClientSink: fmt::Debug + Send + Sync {
    /// Queues a message, which is a line with its end. Never waits: a client that does not read loses droppable
    /// messages first, then responses or its session.
    fn send(&self, line: Bytes, to: Destination, priority: Priority);

    /// These requests of a stream will have no response.
    fn withdraw(&self, _stream: u64, _requests: usize) {}

    /// Waits until the transport has written all messages.
    fn drained(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;

    /// Ends the output of a session. `unanswered` are the streams of requests without a response.
    fn close(&self, unanswered: &[u64]);
}

/// Receives messages from a client.
pub(crate) trait Source {
    /// Passes each message that has arrived to `each`, and waits for one if there is none. Cancel safe.
    async fn receive(&mut self, each: impl FnMut(ClientMessage)) -> Result<(), End>;
}

/// Source of a client whose front hands messages to the session itself.
#[derive(Debug)]
pub(crate) struct NoSource;

impl Source for NoSource {
    async fn receive(&mut self, _: impl FnMut(ClientMessage)) -> Result<(), End> {
        std::future::pending().await
    }
}

/// Input from a client.
#[derive(Debug)]
pub(crate) enum ClientMessage {
    /// Line that is not parsed yet.
    Line(Bytes),
    /// Message that the front has parsed, with the charge for its bytes.
    Message(Frame, Arc<Charge>),
    /// Batch that the front has parsed, with the charge for its bytes.
    Batch(Vec<Frame>, Arc<Charge>),
}

/// Why a source has no more messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The client closed its output.
    Input,
    /// The client disconnected, or does not read.
    Gone,
}
