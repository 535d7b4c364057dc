//! The seam to a client: where what it says comes from, and where what it is told goes.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use ostler::Frame;

use crate::quota::Charge;

pub(crate) mod pipe;

/// Which of a client's requests a message is about: a transport may have a way back for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum About<'a> {
    /// It answers this one.
    Response(&'a [u8]),
    /// It answers these, which came together.
    Batch(&'a [Bytes]),
    /// It came up while this one was with a server.
    Request(&'a [u8]),
    /// None of them.
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
    fn send(&self, line: Bytes, about: About<'_>, weight: Priority);

    /// A request has been taken back: there will be no answer to it.
    fn withdraw(&self, _: &[u8]) {}

    /// Waits until all of it has been taken.
    fn drained(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;

    /// Nothing more will be told.
    fn close(&self);
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
