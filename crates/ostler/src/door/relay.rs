//! Passing bytes on, up to where something else begins.

use std::future::pending;
use std::io;

use tokio::io::{AsyncRead, AsyncWrite};

use super::head::{AnswerHead, InvalidHead};
use super::stream::{Inlet, Outlet};
use crate::http::{Body, InvalidChunk};

/// As much of an answer as is looked at.
const LARGEST_GLANCE: usize = 4 << 10;

/// A connection that can't go on.
#[derive(Debug, thiserror::Error)]
pub(super) enum Broken {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Chunk(#[from] InvalidChunk),
    #[error("cannot parse the engine's response")]
    Answer(#[from] InvalidHead),
    #[error("one side is gone")]
    Gone,
}

/// What comes after a request.
pub(super) enum Next {
    Request,
    /// The connection belongs to a stream from here on.
    Stream,
    End,
}

/// Whether an exchange goes on when its client is gone.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    UntilAnswered,
    WithClient,
}

/// What the engine has said.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) next: Next,
    /// The beginning of its content.
    pub(super) content: Vec<u8>,
}

impl Answer {
    /// The id of what was created, if anything was.
    pub(super) fn created(&self) -> Option<String> {
        #[derive(serde::Deserialize)]
        struct Made {
            #[serde(rename = "Id")]
            id: String,
        }
        let made = serde_json::from_slice(&self.content).ok();
        made.filter(|_| self.status == 201).map(|Made { id }| id)
    }
}

/// Passes on a message whose head is in the buffer.
pub(super) async fn relay(
    mut head: usize,
    mut body: Body,
    from: &mut Inlet<impl AsyncRead + Unpin>,
    to: &mut Outlet<impl AsyncWrite + Unpin>,
    patience: Patience,
    see: &mut impl FnMut(&[u8]),
) -> Result<(), Broken> {
    while head > 0 || !body.is_complete() {
        let bytes = from.bytes();
        let taken = head + body.advance(&bytes[head..], see)?;
        to.write(&bytes[..taken]).await;
        from.consume(taken);
        head = 0;
        if to.is_gone() && patience == Patience::WithClient {
            return Err(Broken::Gone);
        }
        if !body.is_complete() && !from.fill().await? {
            return if body == Body::UntilClose { Ok(()) } else { Err(Broken::Gone) };
        }
    }
    Ok(())
}

/// Passes on what an engine answers, up to the end of its body or the beginning of a stream.
pub(super) async fn download(
    from: &mut Inlet<impl AsyncRead + Unpin>,
    to: &mut Outlet<impl AsyncWrite + Unpin>,
    method: &str,
    patience: Patience,
) -> Result<Answer, Broken> {
    loop {
        let head = answer_head(from, method).await?;
        let body = if head.hijacked { Body::NONE } else { head.body };
        let mut content = Vec::new();
        let mut glance = |part: &[u8]| {
            let room = LARGEST_GLANCE - content.len();
            content.extend_from_slice(&part[..part.len().min(room)]);
        };
        relay(head.length, body, from, to, patience, &mut glance).await?;
        if !head.is_interim() {
            let next = match body {
                _ if head.hijacked => Next::Stream,
                Body::UntilClose => Next::End,
                _ => Next::Request,
            };
            return Ok(Answer { status: head.status, next, content });
        }
    }
}

async fn answer_head(
    from: &mut Inlet<impl AsyncRead + Unpin>,
    method: &str,
) -> Result<AnswerHead, Broken> {
    loop {
        if let Some(head) = AnswerHead::parse(from.bytes(), method)? {
            return Ok(head);
        }
        if from.is_full() || !from.fill().await? {
            return Err(Broken::Gone);
        }
    }
}

/// A future that is never over.
pub(super) enum Never {}

/// Keeps what the client sends before its turn, and passes on that it has ended: an engine stops what
/// nobody waits for.
pub(super) async fn linger(
    from: &mut Inlet<impl AsyncRead + Unpin>,
    to: &mut Outlet<impl AsyncWrite + Unpin>,
    patience: Patience,
) -> Never {
    loop {
        if from.is_full() {
            return pending().await;
        }
        if !from.fill().await.unwrap_or(false) {
            if patience == Patience::WithClient {
                to.finish().await;
            }
            return pending().await;
        }
    }
}

/// All that is left of a stream, and then its end.
pub(super) async fn pump(
    from: &mut Inlet<impl AsyncRead + Unpin>,
    to: &mut Outlet<impl AsyncWrite + Unpin>,
) {
    loop {
        to.write(from.bytes()).await;
        from.consume(from.bytes().len());
        if to.is_gone() || !from.fill().await.unwrap_or(false) {
            return to.finish().await;
        }
    }
}
