//! One question to an engine, and its answer.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{CONNECTION, HOST};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::stream::{NoStream, Stream, open};
use crate::containers::Endpoint;

/// Some thousand containers are listed in a tenth of it.
const LARGEST_ANSWER: usize = 64 << 20;
/// Of an engine's error, which may hold what a runtime has printed.
const LONGEST_MESSAGE: usize = 500;

/// Why a call has no answer, or not the one that was asked for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    #[error(transparent)]
    NoStream(#[from] NoStream),
    #[error("the connection to the engine broke: {0}")]
    Broken(#[from] hyper::Error),
    #[error("the engine has not answered within {0:?}")]
    TooLate(Duration),
    #[error("the engine's answer is larger than {LARGEST_ANSWER} bytes")]
    TooLarge,
    #[error("the engine says {code}: {message}")]
    Refused { code: StatusCode, message: String },
    #[error("the engine's answer can't be read: {0}")]
    Unreadable(#[from] serde_json::Error),
    #[error("the engine speaks API {found}; at least {wanted} is needed")]
    TooOld { found: String, wanted: String },
}

/// What an engine has answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) headers: HeaderMap,
    body: Vec<u8>,
}

impl Answer {
    pub(crate) fn json<T: DeserializeOwned>(&self) -> Result<T, CallError> {
        Ok(serde_json::from_slice(&self.body)?)
    }
}

/// Asks on a line of its own, so that a call which hangs holds up no other. It is given up by being
/// dropped; the engine may still do what it was asked.
pub(crate) async fn call(
    endpoint: &Endpoint,
    method: Method,
    path: &str,
    limit: Duration,
) -> Result<Answer, CallError> {
    let answer = async {
        let stream = open(endpoint).await?;
        exchange(stream, method, path).await
    };
    tokio::time::timeout(limit, answer).await.map_err(|_| CallError::TooLate(limit))?
}

async fn exchange(
    stream: Box<dyn Stream>,
    method: Method,
    path: &str,
) -> Result<Answer, CallError> {
    let (sender, connection) = handshake(TokioIo::new(stream)).await?;
    let (mut connection, mut answer) = (pin!(connection), pin!(ask(sender, method, path)));
    let mut has_ended = false;
    // The connection moves the bytes that the answer waits for. How it ends shows in the answer.
    poll_fn(|context| {
        if !has_ended {
            has_ended = connection.as_mut().poll(context).is_ready();
        }
        answer.as_mut().poll(context)
    })
    .await
}

async fn ask(
    mut sender: SendRequest<Empty<Bytes>>,
    method: Method,
    path: &str,
) -> Result<Answer, CallError> {
    let mut request = Request::new(Empty::new());
    *request.method_mut() = method;
    *request.uri_mut() = path.parse().unwrap_or_default();
    let headers = request.headers_mut();
    headers.insert(HOST, hyper::header::HeaderValue::from_static("engine"));
    headers.insert(CONNECTION, hyper::header::HeaderValue::from_static("close"));
    let response = sender.send_request(request).await?;
    let (code, headers) = (response.status(), response.headers().clone());
    let body = body(response).await?;
    if code.is_success() || code == StatusCode::NOT_MODIFIED {
        Ok(Answer { headers, body })
    } else {
        Err(CallError::Refused { code, message: message(&body) })
    }
}

async fn body(response: Response<Incoming>) -> Result<Vec<u8>, CallError> {
    let (mut incoming, mut body) = (response.into_body(), Vec::new());
    while let Some(frame) = incoming.frame().await {
        let frame = frame?;
        let data = frame.data_ref().map(AsRef::as_ref).unwrap_or_default();
        if body.len() + data.len() > LARGEST_ANSWER {
            return Err(CallError::TooLarge);
        }
        body.extend_from_slice(data);
    }
    Ok(body)
}

/// What an engine says when it refuses.
fn message(body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Refusal {
        message: String,
    }
    let text = match serde_json::from_slice::<Refusal>(body) {
        Ok(refusal) => refusal.message,
        Err(_) => String::from_utf8_lossy(body).into_owned(),
    };
    text.trim().chars().take(LONGEST_MESSAGE).collect()
}

/// Text as a part of a path or of a query.
pub(crate) fn escaped(text: &str) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
            char::from(byte).to_string()
        }
        other => format!("%{other:02X}"),
    };
    text.bytes().map(escape).collect()
}
