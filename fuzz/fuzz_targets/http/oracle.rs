//! The same bytes as hyper reads them.

use std::cell::RefCell;
use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Response, StatusCode};

/// A request as hyper reads it.
#[derive(Debug)]
pub struct Request {
    pub method: String,
    pub path: String,
    pub query: String,
    pub headers: Vec<(String, Vec<u8>)>,
    /// HTTP/1.0.
    pub is_oldest_version: bool,
    /// As much of it as arrived.
    pub body: Vec<u8>,
    /// Why that is not all.
    pub no_body: Option<NoBody>,
}

impl Request {
    /// All values of a header.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        let named = self.headers.iter().filter(move |(own, _)| own == name);
        named.map(|(_, value)| &value[..])
    }
}

/// Why hyper has no body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoBody {
    /// The client closed the connection.
    Gone,
    /// It is malformed.
    Refused,
}

/// All that hyper reads of one connection.
#[derive(Debug)]
pub struct Reading {
    pub requests: Vec<Request>,
    /// The status with which hyper refused what came after the last of them.
    pub refused: Option<u16>,
    /// Whether hyper ended the connection because of the first bytes of an HTTP/2 connection.
    pub is_http2: bool,
}

/// A client that has sent everything and closed its side, and takes all answers.
struct Client<'a> {
    unread: &'a [u8],
    answers: &'a RefCell<Vec<u8>>,
}

impl Read for Client<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        mut into: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let (taken, rest) = self.unread.split_at(into.remaining().min(self.unread.len()));
        into.put_slice(taken);
        self.unread = rest;
        Poll::Ready(Ok(()))
    }
}

impl Write for Client<'_> {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.answers.borrow_mut().extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// What the service answers to each request: a status that hyper never uses by itself.
const ANSWERED: StatusCode = StatusCode::NOT_FOUND;
/// Polls after which a connection that never waits for anything has to be at its end.
const POLLS: usize = 100_000;

/// Reads all requests with their bodies, and answers each with [`ANSWERED`].
pub fn read_all(bytes: &[u8]) -> Reading {
    let (requests, answers) = (RefCell::new(Vec::new()), RefCell::new(Vec::new()));
    let service = service_fn(async |request| {
        let request = read(request).await;
        requests.borrow_mut().push(request);
        let mut response = Response::new(Empty::<Bytes>::new());
        *response.status_mut() = ANSWERED;
        Ok::<_, Infallible>(response)
    });
    // A client that closes its side still waits for the answers.
    let client = Client { unread: bytes, answers: &answers };
    let connection = http1::Builder::new().half_close(true).serve_connection(client, service);
    let is_http2 = end(connection).is_err_and(|error| error.is_parse_version_h2());
    Reading { requests: requests.take(), refused: refusal(&answers.take()), is_http2 }
}

/// Polls a future that never waits for anything to its end.
fn end<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut cx = Context::from_waker(Waker::noop());
    let ended = (0..POLLS).find_map(|_| match future.as_mut().poll(&mut cx) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    });
    ended.expect("hyper comes to an end")
}

async fn read(request: hyper::Request<Incoming>) -> Request {
    let (head, mut incoming) = request.into_parts();
    let (mut body, mut no_body) = (Vec::new(), None);
    while let (None, Some(frame)) = (no_body, incoming.frame().await) {
        match frame {
            Ok(frame) => body.extend_from_slice(&frame.into_data().unwrap_or_default()),
            Err(error) => no_body = Some(reason(&error)),
        }
    }
    let header = |(name, value): (&hyper::header::HeaderName, &hyper::header::HeaderValue)| {
        (name.as_str().to_owned(), value.as_bytes().to_vec())
    };
    Request {
        method: head.method.as_str().to_owned(),
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        headers: head.headers.iter().map(header).collect(),
        is_oldest_version: head.version == hyper::Version::HTTP_10,
        body,
        no_body,
    }
}

fn reason(error: &hyper::Error) -> NoBody {
    let source = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    let is_end = source.is_some_and(|error| error.kind() == io::ErrorKind::UnexpectedEof);
    if is_end || error.is_incomplete_message() { NoBody::Gone } else { NoBody::Refused }
}

/// The status of the last answer, unless the service gave it. No answer has a body.
fn refusal(answers: &[u8]) -> Option<u16> {
    let text = String::from_utf8_lossy(answers);
    let statuses = text.lines().filter_map(|line| line.strip_prefix("HTTP/1.1 "));
    let status = statuses.last()?.get(..3)?.parse().ok()?;
    (status != ANSWERED.as_u16() && status != StatusCode::CONTINUE.as_u16()).then_some(status)
}
