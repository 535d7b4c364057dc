//! One connection: requests and answers, in turns.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use ostler::http::Body;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

use super::Http;
use super::answer::Answer;
use super::connections::{Busy, Connection};
use super::head::{Form, Manner};
use super::limits::SMALL_BODY;
use super::refusal::Refusal;
use super::requests::{Admitted, Asked};
use super::said::read;
use super::wire::{NoBody, Request, Wire};

/// How an answer is sent after which nothing can be understood.
const LAST: Manner =
    Manner { body: Body::NONE, is_asked_for: false, ends: true, form: Form::Plain };

/// What has come on a connection: a request, its end, or something that is no request.
type Incoming = Result<Option<Request<Result<Asked, Refusal>>>, Refusal>;

/// Whether a connection goes on after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    GoOn,
    /// It ends, and its client knows.
    End,
    /// The same, but the client may still send what nobody reads.
    EndSlowly,
    /// Nobody is there any more.
    Drop,
}

/// A connection, and what is known to answer its requests.
struct Turns<'a, S> {
    http: &'a Http,
    wire: Wire<S>,
}

/// Answers all requests of a connection.
pub(super) async fn answer_all(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    connection: &Arc<Connection>,
    http: &Http,
) {
    let mut turns = Turns { http, wire: Wire::new(stream) };
    let mut told = pin!(connection.told());
    loop {
        let request = tokio::select! {
            biased;
            request = turns.wire.request(|head| http.admit(head)) => request,
            () = &mut told => return turns.end_at_once().await,
        };
        let (request, busy) = begin(request, connection);
        // A refused client has no use of its connection, and loses it to others.
        let is_admitted = busy.is_some();
        let goes_on = tokio::select! {
            biased;
            goes_on = turns.take(request) => goes_on,
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
    let Request { manner, asked } = match request {
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
    (Ok(Some(Request { manner, asked })), busy)
}

impl<S: AsyncRead + AsyncWrite + Unpin> Turns<'_, S> {
    /// Answers a request. Whether there may be another one.
    async fn take(&mut self, request: Incoming) -> bool {
        let then = match request {
            Ok(Some(request)) => self.answer(request).await,
            Ok(None) => Then::Drop,
            Err(refusal) => self.say_last(refusal).await,
        };
        match then {
            Then::GoOn => return true,
            Then::Drop => {}
            Then::End => self.end().await,
            Then::EndSlowly => {
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

    async fn answer(&mut self, request: Request<Result<Asked, Refusal>>) -> Then {
        let Request { manner, asked } = request;
        let post = match asked {
            Ok(Asked::Post(post)) => post,
            Ok(Asked::Answered(answer)) => return self.say_unread(answer, manner).await,
            Err(refusal) => return self.say_unread(refusal.into_answer(), manner).await,
        };
        let purse = self.http.purse_of(&post);
        let body = match read(&mut self.wire, &manner, &purse, self.http.limits.body).await {
            Ok(body) => body,
            Err(NoBody::Gone) => return Then::Drop,
            Err(NoBody::Refused(refusal)) => return self.say_last(refusal).await,
        };
        let answer = tokio::select! {
            biased;
            answer = self.http.hear(post, body) => answer,
            () = self.wire.gone() => return Then::Drop,
        };
        self.say(answer.unwrap_or_else(Refusal::into_answer), manner).await
    }

    async fn say(&mut self, answer: Answer, manner: Manner) -> Then {
        let ends = manner.ends || self.http.house.closed().is_cancelled();
        match self.wire.send(answer, &Manner { ends, ..manner }).await {
            Ok(()) if ends => Then::End,
            Ok(()) => Then::GoOn,
            Err(_) => Then::Drop,
        }
    }

    /// Answers a request whose body nobody has read, nor will.
    async fn say_unread(&mut self, answer: Answer, manner: Manner) -> Then {
        // What is short is on its way, unless its sender waits for our word.
        let is_short = matches!(manner.body, Body::Length(..=SMALL_BODY)) && !manner.is_asked_for;
        let ends = manner.ends || !is_short;
        match self.say(answer, Manner { ends, ..manner }).await {
            Then::GoOn => {
                match timeout(self.http.limits.last_words, self.wire.skip(manner.body)).await {
                    Ok(Ok(())) => Then::GoOn,
                    Ok(Err(_)) | Err(_) => Then::Drop,
                }
            }
            Then::End if !manner.body.is_complete() => Then::EndSlowly,
            then => then,
        }
    }

    /// Answers what could not be understood.
    async fn say_last(&mut self, refusal: Refusal) -> Then {
        match self.say(refusal.into_answer(), LAST).await {
            Then::Drop => Then::Drop,
            Then::GoOn | Then::End | Then::EndSlowly => Then::EndSlowly,
        }
    }
}
