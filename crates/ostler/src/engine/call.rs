//! One HTTP request to an engine, on a connection of its own.

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

use super::stream::{ConnectError, Stream, open};
use crate::containers::Endpoint;

/// Bytes. A list of some thousand containers takes a tenth of it.
const LARGEST_RESPONSE: usize = 64 << 20;
/// Characters of an engine's error message that are kept; it may contain the output of a runtime.
const LONGEST_MESSAGE: usize = 500;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    #[error(transparent)]
    ConnectError(#[from] ConnectError),
    #[error("the connection to the engine broke: {0}")]
    Broken(#[from] hyper::Error),
    #[error("the engine did not respond within {0:?}")]
    TooLate(Duration),
    #[error("the engine's response is larger than {LARGEST_RESPONSE} bytes")]
    TooLarge,
    #[error("the engine responded {code}: {message}")]
    Refused { code: StatusCode, message: String },
    #[error("the engine's response can't be parsed: {0}")]
    Unreadable(#[from] serde_json::Error),
    #[error("the engine's API version {found} is too old; at least {wanted} is needed")]
    TooOld { found: String, wanted: String },
}

/// A successful response.
#[derive(Debug)]
pub(crate) struct EngineResponse {
    pub(crate) headers: HeaderMap,
    body: Vec<u8>,
}

impl EngineResponse {
    pub(crate) fn json<T: DeserializeOwned>(&self) -> Result<T, CallError> {
        Ok(serde_json::from_slice(&self.body)?)
    }
}

/// Sends a request on a new connection, so that a request that hangs delays no other. Dropping the future abandons the
/// request; the engine may still carry it out.
pub(crate) async fn call(
    endpoint: &Endpoint,
    method: Method,
    path: &str,
    limit: Duration,
) -> Result<EngineResponse, CallError> {
    let response = async {
        let stream = open(endpoint).await?;
        exchange(stream, method, path).await
    };
    tokio::time::timeout(limit, response).await.map_err(|_| CallError::TooLate(limit))?
}

async fn exchange(
    stream: Box<dyn Stream>,
    method: Method,
    path: &str,
) -> Result<EngineResponse, CallError> {
    let (sender, connection) = handshake(TokioIo::new(stream)).await?;
    let (mut connection, mut response) = (pin!(connection), pin!(send(sender, method, path)));
    let mut has_ended = false;
    // Polls both: the connection transfers the bytes of the response. Its errors also show in the response.
    poll_fn(|context| {
        if !has_ended {
            has_ended = connection.as_mut().poll(context).is_ready();
        }
        response.as_mut().poll(context)
    })
    .await
}

async fn send(
    mut sender: SendRequest<Empty<Bytes>>,
    method: Method,
    path: &str,
) -> Result<EngineResponse, CallError> {
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
        Ok(EngineResponse { headers, body })
    } else {
        Err(CallError::Refused { code, message: message(&body) })
    }
}

async fn body(response: Response<Incoming>) -> Result<Vec<u8>, CallError> {
    let (mut incoming, mut body) = (response.into_body(), Vec::new());
    while let Some(frame) = incoming.frame().await {
        let frame = frame?;
        let data = frame.data_ref().map(AsRef::as_ref).unwrap_or_default();
        if body.len() + data.len() > LARGEST_RESPONSE {
            return Err(CallError::TooLarge);
        }
        body.extend_from_slice(data);
    }
    Ok(body)
}

/// The message in an engine's error response.
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

/// Percent-encodes text for a path segment or a query value.
pub(crate) fn escaped(text: &str) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
            char::from(byte).to_string()
        }
        other => format!("%{other:02X}"),
    };
    text.bytes().map(escape).collect()
}
