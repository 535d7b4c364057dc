//! What a client has posted.

use std::time::Duration;

use bytes::Bytes;
use ostler::http::Body;
use ostler::{Frame, Kind};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::head::Manner;
use super::limits::{BODIES, BODY, SMALL_BODY};
use super::refusal::Refusal;
use super::wire::{NoBody, Wire};
use crate::batch::{self, InvalidBatch};
use crate::message;
use crate::quota::Account;
use crate::transport::Words;

/// Room for bodies that are being read, of which there may be only so many at one time.
#[derive(Debug)]
pub(super) struct Room {
    /// In bytes.
    left: Semaphore,
    /// For one of them to arrive.
    limit: Duration,
}

/// One or several messages that came as one.
#[derive(Debug)]
pub(super) struct Said {
    /// All of it.
    pub(super) words: Words,
    /// The requests in it, by their ids.
    pub(super) ids: Vec<Bytes>,
}

impl Room {
    pub(super) fn new(limit: Duration) -> Self {
        Self { left: Semaphore::new(BODIES), limit }
    }

    /// Reads a body when there is room for it.
    pub(super) async fn read<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        wire: &mut Wire<S>,
        manner: &Manner,
    ) -> Result<Bytes, NoBody> {
        let needed = match manner.body {
            Body::Length(..=SMALL_BODY) => 0,
            Body::Length(length) => u32::try_from(length).unwrap_or(u32::MAX),
            Body::Chunked(_) | Body::UntilClose => BODY,
        };
        if needed > BODY {
            return Err(NoBody::Refused(Refusal::Large));
        }
        if needed == 0
            && let Some(body) = wire.body_at_hand(manner.body)
        {
            return Ok(body);
        }
        let read = async {
            let _room = self.left.acquire_many(needed).await;
            wire.body(manner).await
        };
        timeout(self.limit, read).await.unwrap_or(Err(NoBody::Refused(Refusal::Slow)))
    }
}

impl Said {
    /// What it says, if a client with this version may say it.
    pub(super) fn parse(body: &Bytes, version: &str) -> Result<Self, Refusal> {
        let line = flat(body);
        if batch::is_batch(&line) {
            let frames = batch::parse(&line, version).map_err(|error| match error {
                InvalidBatch::NotJson => Refusal::NotJson,
                error => Refusal::Invalid(error.to_string()),
            })?;
            return Ok(Self { ids: batch::requests(&frames), words: Words::Batch(frames) });
        }
        let frame = Frame::parse(line.clone()).map_err(|error| wrong(&line, &error))?;
        let is_request = frame.kind() == Kind::Request;
        let ids = is_request.then(|| message::request_id(&frame)).into_iter().collect();
        Ok(Self { words: Words::Message(frame), ids })
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
            Words::Message(one) if one.kind() == Kind::Request => {
                Some(one).filter(|one| one.method() == b"initialize")
            }
            Words::Message(_) | Words::Batch(_) | Words::Line(_) => None,
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
