//! Forwards messages and streams between the two sides of a connection.

use std::future::pending;
use std::io;

use tokio::io::{AsyncRead, AsyncWrite};

use super::head::{InvalidHead, ResponseHead};
use super::stream::{ReadSide, WriteSide};
use crate::http::{Body, InvalidChunk};

/// Most bytes of a response body that are kept for inspection.
const CONTENT_LIMIT: usize = 4 << 10;

/// Why a connection can't go on.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectionError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Chunk(#[from] InvalidChunk),
    #[error("cannot parse the engine's response")]
    Response(#[from] InvalidHead),
    #[error("one side closed the connection in the middle of a message")]
    Gone,
}

/// What follows on the connection after a response.
pub(super) enum Next {
    Request,
    /// A raw stream in both directions.
    Stream,
    End,
}

/// What happens to an exchange if its client closes the connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum OnClientGone {
    Finish,
    Abort,
}

/// A response that was forwarded.
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) next: Next,
    /// The first [`CONTENT_LIMIT`] bytes of the body.
    pub(super) content: Vec<u8>,
}

impl Response {
    /// The id of the created object, if the status is 201.
    pub(super) fn created(&self) -> Option<String> {
        #[derive(serde::Deserialize)]
        struct CreatedObject {
            #[serde(rename = "Id")]
            id: String,
        }
        let made = serde_json::from_slice(&self.content).ok();
        made.filter(|_| self.status == 201).map(|CreatedObject { id }| id)
    }
}

/// Forwards a message whose head, of `head` bytes, is in the buffer. Calls `see` with each part of the content.
pub(super) async fn relay(
    mut head: usize,
    mut body: Body,
    from: &mut ReadSide<impl AsyncRead + Unpin>,
    to: &mut WriteSide<impl AsyncWrite + Unpin>,
    on_client_gone: OnClientGone,
    see: &mut impl FnMut(&[u8]),
) -> Result<(), ConnectionError> {
    while head > 0 || !body.is_complete() {
        let bytes = from.bytes();
        let taken = head + body.advance(&bytes[head..], see)?;
        to.write(&bytes[..taken]).await;
        from.consume(taken);
        head = 0;
        if to.is_gone() && on_client_gone == OnClientGone::Abort {
            return Err(ConnectionError::Gone);
        }
        if !body.is_complete() && !from.fill().await? {
            return if body == Body::UntilClose { Ok(()) } else { Err(ConnectionError::Gone) };
        }
    }
    Ok(())
}

/// Forwards the engine's response, up to the end of its body or the start of a stream.
pub(super) async fn download(
    from: &mut ReadSide<impl AsyncRead + Unpin>,
    to: &mut WriteSide<impl AsyncWrite + Unpin>,
    method: &str,
    on_client_gone: OnClientGone,
) -> Result<Response, ConnectionError> {
    loop {
        let head = response_head(from, method).await?;
        let body = if head.hijacked { Body::NONE } else { head.body };
        let mut content = Vec::new();
        let mut keep = |part: &[u8]| {
            let room = CONTENT_LIMIT - content.len();
            content.extend_from_slice(&part[..part.len().min(room)]);
        };
        relay(head.length, body, from, to, on_client_gone, &mut keep).await?;
        if !head.is_interim() {
            let next = match body {
                _ if head.hijacked => Next::Stream,
                Body::UntilClose => Next::End,
                _ => Next::Request,
            };
            return Ok(Response { status: head.status, next, content });
        }
    }
}

async fn response_head(
    from: &mut ReadSide<impl AsyncRead + Unpin>,
    method: &str,
) -> Result<ResponseHead, ConnectionError> {
    loop {
        if let Some(head) = ResponseHead::parse(from.bytes(), method)? {
            return Ok(head);
        }
        if from.is_full() || !from.fill().await? {
            return Err(ConnectionError::Gone);
        }
    }
}

/// Result of a future that never completes.
pub(super) enum Never {}

/// Buffers what the client sends while it waits for a response, and forwards its end of file, because an engine aborts
/// requests whose client is gone.
pub(super) async fn buffer_ahead(
    from: &mut ReadSide<impl AsyncRead + Unpin>,
    to: &mut WriteSide<impl AsyncWrite + Unpin>,
    on_client_gone: OnClientGone,
) -> Never {
    loop {
        if from.is_full() {
            return pending().await;
        }
        if !from.fill().await.unwrap_or(false) {
            if on_client_gone == OnClientGone::Abort {
                to.finish().await;
            }
            return pending().await;
        }
    }
}

/// Copies a stream until its end of file, and forwards that.
pub(super) async fn copy_to_end(
    from: &mut ReadSide<impl AsyncRead + Unpin>,
    to: &mut WriteSide<impl AsyncWrite + Unpin>,
) {
    loop {
        to.write(from.bytes()).await;
        from.consume(from.bytes().len());
        if to.is_gone() || !from.fill().await.unwrap_or(false) {
            return to.finish().await;
        }
    }
}
