//! HTTP/1 on a byte stream: reads request heads and bodies, writes responses.
//!
//! `unread` buffers the input that was not parsed yet, up to `HEAD` bytes and one read. A head is parsed only when a
//! blank line may have arrived, so that a slow sender does not cause it to be parsed again for each byte; the first
//! bytes are parsed at once to reject other protocols. An idle connection frees a large buffer. While a response is
//! in the making, `gone` keeps reading to notice that the client disconnects, and buffers pipelined requests.

use std::future::{pending, poll_fn};
use std::io;

use bytes::{Buf, Bytes, BytesMut};
use ostler::http::{Body, GO_ON};
use ostler::pipe::read;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

use super::head::{self, Exchange, Form, Head};
use super::limits::{BODY, HEAD};
use super::refusal::Refusal;
use super::response::{Content, Response};
use super::sse::SseBody;

/// Largest JSON body in bytes that is copied behind its head and sent in one write.
const TOGETHER: usize = 16 << 10;
/// Initial capacity in bytes for a response head, enough for most of them with their content.
const MOST_HEADS: usize = 512;
/// Largest buffer in bytes that an idle connection keeps.
const KEPT: usize = 4 << 10;

/// Connection with its input buffer.
#[derive(Debug)]
pub(super) struct Wire<S> {
    stream: S,
    /// Input that was not parsed yet.
    unread: BytesMut,
}

/// A request whose body has not been read.
#[derive(Debug)]
pub(super) struct Request<T> {
    pub(super) exchange: Exchange,
    /// Result of looking at the head.
    pub(super) asked: T,
}

/// Why a body could not be read.
#[derive(Debug)]
pub(super) enum NoBody {
    Refused(Refusal),
    /// The client disconnected.
    Gone,
}

impl From<Refusal> for NoBody {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, unread: BytesMut::new() }
    }

    /// Waits for a request head, and passes it to `look`. `None` if the client disconnects. Cancel safe.
    pub(super) async fn request<T>(
        &mut self,
        look: impl Fn(&Head<'_>) -> T,
    ) -> Result<Option<Request<T>>, Refusal> {
        if self.unread.is_empty() && self.unread.try_reclaim(KEPT + 1) {
            self.unread = BytesMut::new();
        }
        let mut known = 0;
        loop {
            // The first part shows whether this is HTTP at all. After that, only a complete head is worth parsing.
            if (known == 0 || head::may_have_ended(&self.unread, known))
                && let Some((length, exchange, asked)) = head::parse(&self.unread, &look)?
            {
                self.unread.advance(length);
                return Ok(Some(Request { exchange, asked }));
            }
            known = self.unread.len();
            if known >= HEAD {
                return Err(Refusal::LargeHead);
            }
            if !self.has_more().await {
                return Ok(None);
            }
        }
    }

    /// Body, if all of it is in the buffer.
    pub(super) fn body_at_hand(&mut self, body: Body) -> Option<Bytes> {
        let Body::Length(length) = body else { return None };
        let length = usize::try_from(length).ok().filter(|length| *length <= self.unread.len())?;
        // Copied, because a slice would keep all of the connection's buffer alive.
        let bytes = Bytes::copy_from_slice(&self.unread[..length]);
        self.unread.advance(length);
        Some(bytes)
    }

    /// Reads a body. `room` is called with the size so far, and refuses a body that is too large.
    pub(super) async fn body(
        &mut self,
        exchange: &Exchange,
        room: impl FnMut(usize) -> Result<(), Refusal>,
    ) -> Result<Bytes, NoBody> {
        if exchange.is_asked_for {
            self.write(GO_ON).await.map_err(|_| NoBody::Gone)?;
        }
        let mut content = BytesMut::new();
        self.read_body(exchange.body, |bytes| content.extend_from_slice(bytes), room).await?;
        Ok(content.freeze())
    }

    /// Reads and discards a body.
    pub(super) async fn skip(&mut self, body: Body) -> Result<(), NoBody> {
        self.read_body(body, |_| {}, |_| Ok(())).await
    }

    async fn read_body(
        &mut self,
        mut rest: Body,
        mut see: impl FnMut(&[u8]),
        mut room: impl FnMut(usize) -> Result<(), Refusal>,
    ) -> Result<(), NoBody> {
        let mut size = 0;
        loop {
            let mut count = |bytes: &[u8]| {
                size += bytes.len();
                see(bytes);
            };
            let taken = rest.advance(&self.unread, &mut count).map_err(Refusal::Unreadable)?;
            self.unread.advance(taken);
            if size > BODY as usize {
                return Err(NoBody::Refused(Refusal::Large));
            }
            room(size)?;
            if rest.is_complete() {
                return Ok(());
            }
            if !self.has_more().await {
                return Err(NoBody::Gone);
            }
        }
    }

    /// Waits until the client disconnects. Never returns if the client has pipelined more than `HEAD` bytes.
    pub(super) async fn gone(&mut self) {
        while self.unread.len() < HEAD {
            if !self.has_more().await {
                return;
            }
        }
        // The buffer is full: the gateway notices the disconnect at its next write, or when it reads on.
        pending::<()>().await;
    }

    /// Sends a response to its end.
    pub(super) async fn send(&mut self, response: Response, exchange: &Exchange) -> io::Result<()> {
        let mut head = Vec::with_capacity(MOST_HEADS);
        response.put_head(exchange, &mut head)?;
        match response.content {
            _ if exchange.form == Form::Head => self.write(&head).await,
            Content::Nothing => self.write(&head).await,
            Content::Json(line) if line.len() <= TOGETHER => {
                head.extend_from_slice(&line);
                self.write(&head).await
            }
            Content::Json(line) => {
                self.write(&head).await?;
                self.write(&line).await
            }
            Content::Events(events) => self.send_events(head, *events, exchange.form).await,
        }
    }

    async fn send_events(
        &mut self,
        mut unsent: Vec<u8>,
        mut events: SseBody,
        form: Form,
    ) -> io::Result<()> {
        loop {
            let next = poll_fn(|cx| events.poll_next(cx));
            let next = tokio::select! {
                biased;
                next = next => next,
                () = self.gone() => return Err(io::ErrorKind::UnexpectedEof.into()),
            };
            match &next {
                Some(bytes) if form == Form::Chunks => put_chunk(&mut unsent, bytes),
                Some(bytes) => unsent.extend_from_slice(bytes),
                None if form == Form::Chunks => put_chunk(&mut unsent, b""),
                None => {}
            }
            self.write(&unsent).await?;
            unsent.clear();
            if next.is_none() {
                return Ok(());
            }
        }
    }

    async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await?;
        self.stream.flush().await
    }

    /// Shuts down the sending side.
    pub(super) async fn end(&mut self) {
        // An error means that the client has gone already.
        let _ = self.stream.shutdown().await;
    }

    /// Discards input until the client disconnects: unread input would reset the connection when it is closed, and
    /// the client could lose the response.
    pub(super) async fn drain(&mut self) {
        while let Ok(1..) = read(&mut self.stream, |_| {}).await {}
    }

    /// Reads more input into the buffer. False at the end of the input, or on an error.
    async fn has_more(&mut self) -> bool {
        let Self { stream, unread } = self;
        let read = read(stream, |bytes| unread.extend_from_slice(bytes));
        matches!(read.await, Ok(1..))
    }
}

/// Appends one chunk of the chunked encoding; an empty one ends the body.
fn put_chunk(to: &mut Vec<u8>, bytes: &[u8]) {
    to.extend_from_slice(format!("{:x}\r\n", bytes.len()).as_bytes());
    to.extend_from_slice(bytes);
    to.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use tokio::io::duplex;

    use super::*;

    #[tokio::test]
    async fn an_endless_head_is_refused() {
        let (mut client, server) = duplex(64);
        let mut wire = Wire::new(server);
        let head = async {
            let _ = client.write_all(b"GET / HTTP/1.1\r\nX: ").await;
            while client.write_all(&[b'x'; 64]).await.is_ok() {}
        };
        let refused = tokio::select! {
            request = wire.request(|_| ()) => request,
            () = head => panic!("it is read to its end"),
        };
        assert!(matches!(refused, Err(Refusal::LargeHead)), "{refused:?}");
        assert!(wire.unread.len() < HEAD + 64);
    }

    #[tokio::test]
    async fn an_idle_connection_keeps_a_small_buffer() {
        let (mut client, server) = duplex(1 << 20);
        let mut wire = Wire::new(server);
        let text = format!("POST / HTTP/1.1\r\nContent-Length: {}\r\n\r\n", 60_000);
        client.write_all(text.as_bytes()).await.unwrap();
        client.write_all(&vec![b' '; 60_000]).await.unwrap();
        let request = wire.request(|_| ()).await.unwrap().expect("a request");
        assert_eq!(wire.body(&request.exchange, |_| Ok(())).await.unwrap().len(), 60_000);
        drop(client);
        assert!(wire.request(|_| ()).await.unwrap().is_none());
        assert!(!wire.unread.try_reclaim(KEPT + 1));
    }
}
