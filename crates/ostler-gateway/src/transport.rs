//! The seam to a client: where what it says comes from, and where what it is told goes.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use ostler::Frame;

use crate::quota::{Charge, RequestPermits};

pub(crate) mod pipe;

/// Where the responses to a message go.
#[derive(Debug, Default)]
pub(crate) struct ReturnAddress {
    /// The event stream that the message came with; 0 on a pipe, which has only one way back.
    pub(crate) stream: u64,
    /// What its requests count against until they are closed, if the transport counts them.
    pub(crate) permits: Option<RequestPermits>,
}

#[cfg(test)]
impl ReturnAddress {
    pub(crate) fn stream(stream: u64) -> Self {
        Self { stream, permits: None }
    }
}

/// Which event stream gets a message. A pipe is all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    /// The stream that this many requests came with, which the message completes.
    Response { stream: u64, requests: usize },
    /// The stream of the request that the message relates to, or where the session listens if nobody reads that.
    Related { stream: u64 },
    /// Where the session listens.
    Session,
}

/// Whether a message may be left out when its reader does not keep up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Priority {
    /// It may not.
    Required,
    /// It may.
    Droppable,
}

/// Where a client is told something.
pub(crate) trait ClientSink: fmt::Debug + Send + Sync {
    /// Takes a message, as a line with its end. Never waits: a client that does not take what it is told
    /// loses notices first, then its session.
    fn send(&self, line: Bytes, to: Destination, priority: Priority);

    /// Requests that came with this stream will have no response.
    fn withdraw(&self, _stream: u64, _requests: usize) {}

    /// Waits until all of it has been taken.
    fn drained(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;

    /// Nothing more will be told. These are the streams of requests that have no response.
    fn close(&self, unanswered: &[u64]);
}

/// Where a client says something.
pub(crate) trait Source {
    /// Gives each message that is there to `each`, and waits for one if there is none. May be dropped while
    /// it waits.
    async fn receive(&mut self, each: impl FnMut(ClientMessage)) -> Result<(), End>;
}

/// A client whose words are brought to its session by somebody else.
#[derive(Debug)]
pub(crate) struct NoSource;

impl Source for NoSource {
    async fn receive(&mut self, _: impl FnMut(ClientMessage)) -> Result<(), End> {
        std::future::pending().await
    }
}

/// What a client says.
#[derive(Debug)]
pub(crate) enum ClientMessage {
    /// As it came.
    Line(Bytes),
    /// One message, by a front that had to look into it, and has counted its bytes.
    Message(Frame, Arc<Charge>),
    /// Several that came as one, by a front that had to look into them, and has counted their bytes.
    Batch(Vec<Frame>, Arc<Charge>),
}

/// Why a client says nothing more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It has nothing more to say.
    Input,
    /// It is not there any more, or does not listen.
    Gone,
}
