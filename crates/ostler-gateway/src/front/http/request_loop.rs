//! Serves one HTTP connection: reads a request, sends its response, and repeats.
//!
//! The head of a request decides whether it is admitted and what it asks for. An admitted request marks the
//! connection as busy, so that it is not closed in favour of another one; only then is the body read. A refused
//! request leaves the connection idle, and the gateway may close it at any time. The connection stays open after a
//! response, unless the client or the framing of the request demands its end. If the client may still be sending when
//! the gateway closes, the gateway reads and discards input for a while: closing a socket with unread input resets
//! the connection, and the client may lose the response.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use ostler::http::Body;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

use super::Http;
use super::connections::{Busy, Connection};
use super::head::{Exchange, Form};
use super::limits::SMALL_BODY;
use super::post::read;
use super::refusal::Refusal;
use super::requests::{Action, Admitted};
use super::response::Response;
use super::wire::{NoBody, Request, Wire};

/// Framing of the response to a request that could not be parsed: nothing behind it can be parsed either.
const LAST: Exchange =
    Exchange { body: Body::NONE, is_asked_for: false, ends: true, form: Form::Plain };

/// Input of a connection: a request, the end (`None`), or bytes that are no request.
type Incoming = Result<Option<Request<Result<Action, Refusal>>>, Refusal>;

/// State of the connection after a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Continue,
    /// The response announced the end, and the client has sent all of its request.
    End,
    /// The response announced the end, and the client may still be sending.
    CloseAfterDrain,
    /// The client has gone.
    Drop,
}

/// Loop over the requests of one connection.
struct RequestLoop<'a, S> {
    http: &'a Http,
    wire: Wire<S>,
}

/// Serves all requests of a connection.
pub(super) async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    connection: &Arc<Connection>,
    http: &Http,
) {
    let mut requests = RequestLoop { http, wire: Wire::new(stream) };
    let mut told = pin!(connection.told());
    loop {
        let request = tokio::select! {
            biased;
            request = requests.wire.request(|head| http.admit(head)) => request,
            () = &mut told => return requests.end_at_once().await,
        };
        let (request, busy) = begin(request, connection);
        // A refused request does not protect its connection, which may have to make room for another one.
        let is_admitted = busy.is_some();
        let goes_on = tokio::select! {
            biased;
            goes_on = requests.take(request) => goes_on,
            () = &mut told, if !is_admitted => false,
        };
        if !goes_on {
            return;
        }
    }
}

/// Marks the connection of an admitted request as busy, unless its principal has used up its share of connections.
fn begin(
    request: Result<Option<Request<Result<Admitted, Refusal>>>, Refusal>,
    connection: &Arc<Connection>,
) -> (Incoming, Option<Busy>) {
    let Request { exchange, asked } = match request {
        Ok(Some(request)) => request,
        Ok(None) => return (Ok(None), None),
        Err(refusal) => return (Err(refusal), None),
    };
    let worked =
        asked.and_then(|Admitted { asked, account }| Ok((asked, connection.work(account)?)));
    let (asked, busy) = match worked {
        Ok((asked, busy)) => (Ok(asked), Some(busy)),
        Err(refusal) => (Err(refusal), None),
    };
    (Ok(Some(Request { exchange, asked })), busy)
}

impl<S: AsyncRead + AsyncWrite + Unpin> RequestLoop<'_, S> {
    /// Sends the response to a request. False if the connection ends.
    async fn take(&mut self, request: Incoming) -> bool {
        let then = match request {
            Ok(Some(request)) => self.response(request).await,
            Ok(None) => Next::Drop,
            Err(refusal) => self.respond_last(refusal).await,
        };
        match then {
            Next::Continue => return true,
            Next::Drop => {}
            Next::End => self.end().await,
            Next::CloseAfterDrain => {
                self.end().await;
                let _ = timeout(self.http.limits.last_words, self.wire.drain()).await;
            }
        }
        false
    }

    /// Shuts down the sending side, with a deadline for a client that does not read.
    async fn end(&mut self) {
        let _ = timeout(self.http.limits.last_words, self.wire.end()).await;
    }

    /// Shuts down the sending side without waiting for the client: another connection may need the place of this one.
    async fn end_at_once(&mut self) {
        let _ = timeout(Duration::ZERO, self.wire.end()).await;
    }

    async fn response(&mut self, request: Request<Result<Action, Refusal>>) -> Next {
        let Request { exchange, asked } = request;
        let post = match asked {
            Ok(Action::PostTarget(post)) => post,
            Ok(Action::Respond(response)) => return self.respond_unread(response, exchange).await,
            Err(refusal) => return self.respond_unread(refusal.into_response(), exchange).await,
        };
        let budget = self.http.budget_of(&post);
        let body = match read(&mut self.wire, &exchange, &budget, self.http.limits.body).await {
            Ok(body) => body,
            Err(NoBody::Gone) => return Next::Drop,
            Err(NoBody::Refused(refusal)) => return self.respond_last(refusal).await,
        };
        let response = tokio::select! {
            biased;
            response = self.http.receive(post, body) => response,
            () = self.wire.gone() => return Next::Drop,
        };
        self.respond(response.unwrap_or_else(Refusal::into_response), exchange).await
    }

    async fn respond(&mut self, response: Response, exchange: Exchange) -> Next {
        let ends = exchange.ends || self.http.gateway.closed().is_cancelled();
        match self.wire.send(response, &Exchange { ends, ..exchange }).await {
            Ok(()) if ends => Next::End,
            Ok(()) => Next::Continue,
            Err(_) => Next::Drop,
        }
    }

    /// Sends the response to a request whose body is not needed, then skips the body or closes the connection.
    async fn respond_unread(&mut self, response: Response, exchange: Exchange) -> Next {
        // A short body is on its way already, unless the client waits for `100 Continue`.
        let is_short =
            matches!(exchange.body, Body::Length(..=SMALL_BODY)) && !exchange.is_asked_for;
        let ends = exchange.ends || !is_short;
        match self.respond(response, Exchange { ends, ..exchange }).await {
            Next::Continue => {
                match timeout(self.http.limits.last_words, self.wire.skip(exchange.body)).await {
                    Ok(Ok(())) => Next::Continue,
                    Ok(Err(_)) | Err(_) => Next::Drop,
                }
            }
            Next::End if !exchange.body.is_complete() => Next::CloseAfterDrain,
            then => then,
        }
    }

    /// Sends the response to a malformed request, and closes the connection.
    async fn respond_last(&mut self, refusal: Refusal) -> Next {
        match self.respond(refusal.into_response(), LAST).await {
            Next::Drop => Next::Drop,
            Next::Continue | Next::End | Next::CloseAfterDrain => Next::CloseAfterDrain,
        }
    }
}
