//! Failures of requests to a remote server.

use bytes::Bytes;
use hyper::StatusCode;
use ostler::visible::is_hidden;
use serde::Deserialize;

use super::http::HttpError;

/// Longest error text that is passed on from a response, in characters.
const SHOWN: usize = 300;

/// Why a request to a remote server failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// The HTTP request failed.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// The server answered 401, and there is no valid login.
    #[error("it requires a login: run `ostler login {0}`")]
    LogIn(String),
    /// The server answered 401 to the configured credentials.
    #[error("it rejects the credentials in its `headers` (HTTP 401)")]
    Credentials,
    /// The server answered with an error status.
    #[error("it answered HTTP {status}{what}")]
    Status {
        /// The HTTP status.
        status: StatusCode,
        /// The error text of the response after a colon, or nothing.
        what: String,
    },
    /// The server no longer knows the session.
    #[error("it has forgotten the session (HTTP {0})")]
    Forgotten(StatusCode),
    /// The only event stream of an HTTP+SSE server ended.
    #[error("its event stream ended")]
    Ended,
    /// The connection broke before the response, and its stream can't be resumed.
    #[error(
        "the connection broke before the response, and the call may or may not have been executed"
    )]
    Dropped,
    /// The connection broke before the response, and resuming its stream failed for this reason.
    #[error("the connection broke before the response, and resuming it failed: {0}")]
    NotResumed(String),
    /// A message exceeds the size limit.
    #[error("it sent a message of more than {0} bytes")]
    Long(usize),
    /// The response contains no JSON-RPC message.
    #[error("its response is not a message ({0})")]
    NoMessage(String),
    /// An HTTP+SSE server announced an endpoint on another origin.
    #[error("its endpoint {0} is on another origin")]
    Endpoint(String),
    /// The server did not accept a message in time.
    #[error("it did not accept a message within {0:?}")]
    NotTaken(std::time::Duration),
}

impl Failure {
    /// Machine-readable reason, sent in the error's data.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::Http(_) | Self::NotTaken(_) => "upstream_unreachable",
            Self::LogIn(_) | Self::Credentials => "login_required",
            Self::Status { .. } => "upstream_refused",
            Self::Forgotten(_) | Self::Ended | Self::Dropped | Self::NotResumed(_) => {
                "upstream_dropped"
            }
            Self::Long(_) | Self::NoMessage(_) | Self::Endpoint(_) => "upstream_invalid",
        }
    }

    /// Failure for an error status, with the error text of its body.
    pub(super) fn status(status: StatusCode, body: &Bytes) -> Self {
        let said = said(body);
        let what = if said.is_empty() { said } else { format!(": {said}") };
        Self::Status { status, what }
    }

    /// Whether the status means that the session is unknown. Some servers use 400 and say so in the text.
    pub(super) fn forgets(&self) -> bool {
        match self {
            Self::Status { status: StatusCode::NOT_FOUND, .. } => true,
            Self::Status { status: StatusCode::BAD_REQUEST, what } => {
                what.to_lowercase().contains("session")
            }
            _ => false,
        }
    }

    /// Whether a retry is pointless.
    pub(super) fn is_final(&self) -> bool {
        match self {
            Self::Status { status, .. } => status.is_client_error(),
            Self::Http(error) => !matches!(error, HttpError::Unreachable(_)),
            _ => true,
        }
    }
}

/// Error text of a response body: the message of a JSON-RPC or OAuth error, or plain text.
pub(super) fn said(body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Said {
        error: Option<Error>,
        error_description: Option<String>,
    }
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Error {
        Object { message: String },
        Text(String),
    }
    let text = match serde_json::from_slice::<Said>(body) {
        Ok(
            Said { error_description: Some(text), .. }
            | Said { error: Some(Error::Object { message: text } | Error::Text(text)), .. },
        ) => text,
        _ => String::from_utf8_lossy(body).into_owned(),
    };
    // An HTML page is no readable error text.
    if text.trim_start().starts_with('<') {
        return String::new();
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().filter(|c| !is_hidden(*c)).take(SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_of_an_error_is_found() {
        for (body, expected) in [
            (
                r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no session"}}"#,
                "no session",
            ),
            (r#"{"error":"invalid_grant","error_description":"used\n twice"}"#, "used twice"),
            (r#"{"error":"invalid_grant"}"#, "invalid_grant"),
            (" plain\n text ", "plain text"),
            ("<html>page</html>", ""),
            ("", ""),
        ] {
            assert_eq!(said(body.as_bytes()), expected);
        }
        assert_eq!(said(&[b'x'; 9999]).len(), SHOWN);
    }
}
