//! Entry points for fuzz targets: an HTTP front without servers, and the HTTP/1 parser alone. Neither uses a network.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ostler::keeper::Principal;
use ostler::{Owner, Places};
use tokio::io::{AsyncRead, AsyncWrite};

use super::connections::Connections;
use super::head::Head;
use super::path;
use super::post;
use super::refusal::Refusal;
use super::request_loop::serve;
use super::wire::{self, NoBody, Wire};
use super::{Credential, Http, Limits, Settings};
use crate::gateway::{Gateway, ServerSource};
use crate::quota::{ByteBudget, Quotas};
use crate::storage::Storage;

/// The only token that the front accepts.
const TOKEN: &str = "0123456789abcdef";

/// HTTP front without servers.
#[derive(Debug)]
pub struct Front {
    http: Arc<Http>,
    connections: Arc<Connections>,
}

impl Front {
    /// Creates a front with at most this many sessions.
    pub fn new(sessions: usize) -> io::Result<Self> {
        let owner = Owner::new(Places::new(["/nowhere".into()]), "fuzzing")?;
        let source = ServerSource::Fixed(BTreeMap::new());
        let gateway = Gateway::new(owner, source, None, Storage::default());
        // Short, because the front notices only at a write that a client with a full input buffer has disconnected.
        let keep_alive = Duration::from_millis(200);
        let limits = Limits { keep_alive, sessions, ..Limits::default() };
        let credentials = vec![Credential::new("main", TOKEN.into())];
        let settings = Settings { credentials, names: Vec::new(), identity: None, limits };
        let connections = Connections::new(limits.connections);
        Ok(Self { http: Http::new(settings, &gateway), connections })
    }

    /// Serves a connection to its end.
    pub async fn serve(&self, stream: impl AsyncRead + AsyncWrite + Unpin) {
        if let Some(connection) = self.connections.open(0) {
            serve(stream, &connection, &self.http).await;
        }
    }
}

/// Request as the gateway parses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Method as written.
    pub method: String,
    /// Path, without the scheme and authority of an absolute target.
    pub path: String,
    /// Query, without the question mark.
    pub query: String,
    /// Header names and values in their order.
    pub headers: Vec<(String, Vec<u8>)>,
    /// Body; empty if it did not arrive.
    pub body: Bytes,
}

impl Request {
    fn of(head: &Head<'_>) -> Self {
        let header =
            |header: &httparse::Header<'_>| (header.name.to_owned(), header.value.to_vec());
        Self {
            method: head.method.to_owned(),
            path: head.path.to_owned(),
            query: head.query.to_owned(),
            headers: head.headers.iter().map(header).collect(),
            body: Bytes::new(),
        }
    }

    /// Whether the path belongs to a transport of the gateway.
    pub fn is_served(&self) -> bool {
        path::parse(&self.path).is_ok()
    }
}

/// Why the gateway stops reading a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The client disconnected, perhaps within a head.
    Closed,
    /// The last request asked for the connection to be closed.
    Asked,
    /// The client disconnected within the body of this request.
    Gone,
    /// The gateway refused the input, with this status.
    Refused(u16),
}

/// All requests that the gateway parses from one connection.
#[derive(Debug)]
pub struct Reading {
    /// Requests with complete bodies.
    pub requests: Vec<Request>,
    /// Request whose body did not arrive or was refused.
    pub without_body: Option<Request>,
    /// Why no other request follows.
    pub end: End,
}

/// Reads requests with their bodies to the end of the connection, and sends no responses.
pub async fn read_all(stream: impl AsyncRead + AsyncWrite + Unpin) -> Reading {
    let (mut wire, limit) = (Wire::new(stream), Limits::default().body);
    let budget = ByteBudget::new(Quotas::default().account(&Principal::default()));
    let mut reading = Reading { requests: Vec::new(), without_body: None, end: End::Closed };
    loop {
        let wire::Request { exchange, asked: mut request } = match wire.request(Request::of).await {
            Ok(Some(request)) => request,
            Ok(None) => return reading,
            Err(refusal) => return Reading { end: refused(refusal), ..reading },
        };
        let end = match post::read(&mut wire, &exchange, &budget, limit).await {
            Ok(posted) => {
                request.body = posted.body;
                reading.requests.push(request);
                if !exchange.ends {
                    continue;
                }
                End::Asked
            }
            Err(error) => {
                reading.without_body = Some(request);
                match error {
                    NoBody::Gone => End::Gone,
                    NoBody::Refused(refusal) => refused(refusal),
                }
            }
        };
        return Reading { end, ..reading };
    }
}

fn refused(refusal: Refusal) -> End {
    End::Refused(refusal.into_response().status.as_u16())
}
