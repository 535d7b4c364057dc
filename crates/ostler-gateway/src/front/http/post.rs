//! Bodies of POST requests, and the messages in them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ostler::http::Body;
use ostler::{Frame, Kind};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

use super::head::Exchange;
use super::limits::{BODY, SMALL_BODY};
use super::refusal::Refusal;
use super::wire::{NoBody, Wire};
use crate::protocol::batch::{self, InvalidBatch};
use crate::quota::{Account, ByteBudget, Charge};
use crate::transport::ClientMessage;

/// Body of a request, with the charge for its bytes.
#[derive(Debug)]
pub(super) struct PostBody {
    pub(super) body: Bytes,
    charge: Charge,
}

/// Message, or batch of messages, of one POST.
#[derive(Debug)]
pub(super) struct ParsedPost {
    pub(super) message: ClientMessage,
    /// Number of requests in the message.
    pub(super) requests: usize,
}

/// Reads a body before the deadline. Bytes are charged as they arrive, so that a slow sender reserves no budget that
/// others could use.
pub(super) async fn read<S: AsyncRead + AsyncWrite + Unpin>(
    wire: &mut Wire<S>,
    exchange: &Exchange,
    budget: &Arc<ByteBudget>,
    limit: Duration,
) -> Result<PostBody, NoBody> {
    if let Body::Length(length) = exchange.body {
        let length = u32::try_from(length).ok().filter(|length| *length <= BODY);
        budget.consider(length.ok_or(Refusal::Large)? as usize).map_err(Refusal::Waiting)?;
    }
    if let Body::Length(..=SMALL_BODY) = exchange.body
        && let Some(body) = wire.body_at_hand(exchange.body)
    {
        let charge = budget.charge(body.len()).map_err(Refusal::Waiting)?;
        return Ok(PostBody { body, charge });
    }
    let mut charge = budget.charge(0).map_err(Refusal::Waiting)?;
    let body = wire.body(exchange, |size| charge.grow(size).map_err(Refusal::Waiting));
    let body = timeout(limit, body).await.unwrap_or(Err(NoBody::Refused(Refusal::Slow)))?;
    Ok(PostBody { body, charge })
}

impl ParsedPost {
    /// Parses a body; a batch is allowed only in the protocol version that has batches.
    pub(super) fn parse(posted: PostBody, version: &str) -> Result<Self, Refusal> {
        let PostBody { body, charge } = posted;
        let line = flat(&body);
        if batch::is_batch(&line) {
            let frames = batch::parse(&line, version).map_err(|error| match error {
                InvalidBatch::NotJson => Refusal::NotJson,
                error => Refusal::Invalid(error.to_string()),
            })?;
            let requests = batch::requests(&frames).count();
            let message = ClientMessage::Batch(frames, Arc::new(charge));
            return Ok(Self { message, requests });
        }
        let frame = Frame::parse(line.clone()).map_err(|error| wrong(&line, &error))?;
        let requests = usize::from(frame.kind() == Kind::Request);
        Ok(Self { message: ClientMessage::Message(frame, Arc::new(charge)), requests })
    }

    /// Counts the requests of a batch towards the rate limit, except the first, which was counted with the request
    /// head.
    pub(super) fn pace(&self, account: &Account) -> Result<(), Refusal> {
        match u32::try_from(self.requests).unwrap_or(u32::MAX) {
            0 | 1 => Ok(()),
            requests => account.pace(requests - 1).map_err(Refusal::Pace),
        }
    }

    /// The message, if it is an `initialize` request.
    pub(super) fn initialize(&self) -> Option<&Frame> {
        match &self.message {
            ClientMessage::Message(one, _) if one.kind() == Kind::Request => {
                Some(one).filter(|one| one.method() == b"initialize")
            }
            ClientMessage::Message(..) | ClientMessage::Batch(..) | ClientMessage::Line(_) => None,
        }
    }
}

fn wrong(line: &[u8], error: &ostler::InvalidFrame) -> Refusal {
    match serde_json::from_slice::<serde::de::IgnoredAny>(line) {
        Ok(_) => Refusal::Invalid(error.to_string()),
        Err(_) => Refusal::NotJson,
    }
}

/// Replaces line ends by spaces, because servers read one message per line. JSON has raw line ends only between
/// tokens.
fn flat(body: &Bytes) -> Bytes {
    let body = body.slice_ref(body.trim_ascii());
    if memchr::memchr2(b'\r', b'\n', &body).is_none() {
        return body;
    }
    let mut bytes = body.to_vec();
    for byte in bytes.iter_mut().filter(|byte| matches!(byte, b'\r' | b'\n')) {
        *byte = b' ';
    }
    bytes.into()
}
