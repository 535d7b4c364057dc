//! Why a remote server did not do what it was asked for.

use bytes::Bytes;
use hyper::StatusCode;
use ostler::visible::is_hidden;
use serde::Deserialize;

use super::http::HttpError;

/// How much of what it says is passed on.
const SHOWN: usize = 300;

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// Nothing was heard.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// It does not know us.
    #[error("it requires a login: run `ostler login {0}`")]
    LogIn(String),
    /// It does not take the credentials that the configuration has.
    #[error("it rejects the credentials in its `headers` (HTTP 401)")]
    Credentials,
    /// It says no.
    #[error("it answered HTTP {status}{what}")]
    Status {
        /// The number.
        status: StatusCode,
        /// What it said to it, after a colon.
        what: String,
    },
    /// It does not know the session any more.
    #[error("it has forgotten the session (HTTP {0})")]
    Forgotten(StatusCode),
    /// An old server's only stream is gone.
    #[error("its event stream ended")]
    Ended,
    /// The line broke before the answer came, and it can't be had again.
    #[error(
        "the connection broke before the response, and the call may or may not have been executed"
    )]
    Dropped,
    /// The same, with the reason.
    #[error("the connection broke before the response, and resuming it failed: {0}")]
    NotResumed(String),
    /// What it said is longer than allowed.
    #[error("it sent a message of more than {0} bytes")]
    Long(usize),
    /// What it said is no message.
    #[error("its response is not a message ({0})")]
    NoMessage(String),
    /// It is not where it says that it is.
    #[error("its endpoint {0} is on another origin")]
    Endpoint(String),
    /// It did not take something in time.
    #[error("it did not accept a message within {0:?}")]
    NotTaken(std::time::Duration),
}

impl Failure {
    /// For programs.
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

    /// From what it said to a number that means no.
    pub(super) fn status(status: StatusCode, body: &Bytes) -> Self {
        let said = said(body);
        let what = if said.is_empty() { said } else { format!(": {said}") };
        Self::Status { status, what }
    }

    /// Whether a session that it knew is unknown to it. Some servers say so with another number, and in words.
    pub(super) fn forgets(&self) -> bool {
        match self {
            Self::Status { status: StatusCode::NOT_FOUND, .. } => true,
            Self::Status { status: StatusCode::BAD_REQUEST, what } => {
                what.to_lowercase().contains("session")
            }
            _ => false,
        }
    }

    /// Whether trying it again is pointless.
    pub(super) fn is_final(&self) -> bool {
        match self {
            Self::Status { status, .. } => status.is_client_error(),
            Self::Http(error) => !matches!(error, HttpError::Unreachable(_)),
            _ => true,
        }
    }
}

/// The words in what it said: of an error of JSON-RPC or OAuth, or a plain text.
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
    // A page for people says nothing in a line.
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
    fn the_words_in_an_error_are_found() {
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
