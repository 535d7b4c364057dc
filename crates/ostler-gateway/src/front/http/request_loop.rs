//! One connection: requests and answers, in turns.

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

/// How an answer is sent after which nothing can be understood.
const LAST: Exchange =
    Exchange { body: Body::NONE, is_asked_for: false, ends: true, form: Form::Plain };

/// What has come on a connection: a request, its end, or something that is no request.
type Incoming = Result<Option<Request<Result<Action, Refusal>>>, Refusal>;

/// Whether a connection goes on after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Continue,
    /// It ends, and its client knows.
    End,
    /// The same, but the client may still send what nobody reads.
    CloseAfterDrain,
    /// Nobody is there any more.
    Drop,
}

/// A connection, and what is known to answer its requests.
struct RequestLoop<'a, S> {
    http: &'a Http,
    wire: Wire<S>,
}

/// Answers all requests of a connection.
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
        // A refused client has no use of its connection, and loses it to others.
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

/// Marks the connection of an admitted request as busy, if its principal may use one more.
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
    /// Answers a request. Whether there may be another one.
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

    /// Ends what is sent, unless the client does not take it.
    async fn end(&mut self) {
        let _ = timeout(self.http.limits.last_words, self.wire.end()).await;
    }

    /// Ends what is sent without waiting for the client: another connection may need the place of this one.
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
            response = self.http.hear(post, body) => response,
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

    /// Answers a request whose body nobody has read, nor will.
    async fn respond_unread(&mut self, response: Response, exchange: Exchange) -> Next {
        // What is short is on its way, unless its sender waits for our word.
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

    /// Answers what could not be understood.
    async fn respond_last(&mut self, refusal: Refusal) -> Next {
        match self.respond(refusal.into_response(), LAST).await {
            Next::Drop => Next::Drop,
            Next::Continue | Next::End | Next::CloseAfterDrain => Next::CloseAfterDrain,
        }
    }
}
