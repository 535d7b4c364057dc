//! What a client has posted.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ostler::http::Body;
use ostler::{Frame, Kind};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

use super::head::Manner;
use super::limits::{BODY, SMALL_BODY};
use super::refusal::Refusal;
use super::wire::{NoBody, Wire};
use crate::protocol::batch::{self, InvalidBatch};
use crate::protocol::message;
use crate::quota::{Account, Charge, Purse};
use crate::transport::Words;

/// The body of a request, and the count of its bytes.
#[derive(Debug)]
pub(super) struct Posted {
    pub(super) body: Bytes,
    charge: Charge,
}

/// One or several messages that came as one.
#[derive(Debug)]
pub(super) struct Said {
    /// All of it.
    pub(super) words: Words,
    /// The requests in it, by their ids.
    pub(super) ids: Vec<Bytes>,
}

/// Reads a body. Its bytes count from when they arrive, so that a slow sender takes no room that others could use.
pub(super) async fn read<S: AsyncRead + AsyncWrite + Unpin>(
    wire: &mut Wire<S>,
    manner: &Manner,
    purse: &Arc<Purse>,
    limit: Duration,
) -> Result<Posted, NoBody> {
    if let Body::Length(length) = manner.body {
        let length = u32::try_from(length).ok().filter(|length| *length <= BODY);
        purse.consider(length.ok_or(Refusal::Large)? as usize).map_err(Refusal::Waiting)?;
    }
    if let Body::Length(..=SMALL_BODY) = manner.body
        && let Some(body) = wire.body_at_hand(manner.body)
    {
        let charge = purse.charge(body.len()).map_err(Refusal::Waiting)?;
        return Ok(Posted { body, charge });
    }
    let mut charge = purse.charge(0).map_err(Refusal::Waiting)?;
    let body = wire.body(manner, |size| charge.grow(size).map_err(Refusal::Waiting));
    let body = timeout(limit, body).await.unwrap_or(Err(NoBody::Refused(Refusal::Slow)))?;
    Ok(Posted { body, charge })
}

impl Said {
    /// What it says, if a client with this version may say it.
    pub(super) fn parse(posted: Posted, version: &str) -> Result<Self, Refusal> {
        let Posted { body, charge } = posted;
        let line = flat(&body);
        if batch::is_batch(&line) {
            let frames = batch::parse(&line, version).map_err(|error| match error {
                InvalidBatch::NotJson => Refusal::NotJson,
                error => Refusal::Invalid(error.to_string()),
            })?;
            let ids = batch::requests(&frames).into_iter().map(|id| charge.detached(id)).collect();
            return Ok(Self { ids, words: Words::Batch(frames, Arc::new(charge)) });
        }
        let frame = Frame::parse(line.clone()).map_err(|error| wrong(&line, &error))?;
        let is_request = frame.kind() == Kind::Request;
        let id = is_request.then(|| charge.detached(message::request_id(&frame)));
        let ids = id.into_iter().collect();
        Ok(Self { words: Words::Message(frame, Arc::new(charge)), ids })
    }

    /// Counts the requests beside the first one, which was counted when its head was read.
    pub(super) fn pace(&self, account: &Account) -> Result<(), Refusal> {
        match u32::try_from(self.ids.len()).unwrap_or(u32::MAX) {
            0 | 1 => Ok(()),
            requests => account.pace(requests - 1).map_err(Refusal::Pace),
        }
    }

    /// The beginning of a session, if it is one.
    pub(super) fn hello(&self) -> Option<&Frame> {
        match &self.words {
            Words::Message(one, _) if one.kind() == Kind::Request => {
                Some(one).filter(|one| one.method() == b"initialize")
            }
            Words::Message(..) | Words::Batch(..) | Words::Line(_) => None,
        }
    }
}

fn wrong(line: &[u8], error: &ostler::InvalidFrame) -> Refusal {
    match serde_json::from_slice::<serde::de::IgnoredAny>(line) {
        Ok(_) => Refusal::Invalid(error.to_string()),
        Err(_) => Refusal::NotJson,
    }
}

/// On one line, as servers read it: outside of strings the ends of lines mean nothing, and inside of them they
/// are written otherwise.
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
