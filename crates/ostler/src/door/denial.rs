//! Answers of the Door itself, in an engine's words, so that every client shows them.

use serde_json::json;

use crate::containers::Unreachable;

/// A request that is not passed on, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Denial {
    status: u16,
    phrase: &'static str,
    message: String,
}

/// What becomes of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    KeepAlive,
    Close,
}

impl Denial {
    pub(super) fn closing() -> Self {
        Self::new(503, "Service Unavailable", "ostler: this server is being stopped")
    }

    pub(super) fn crowded() -> Self {
        Self::new(503, "Service Unavailable", "ostler: too many connections to the engine")
    }

    pub(super) fn unmarkable(what: &str) -> Self {
        let message = format!(
            "ostler: {what} could not be ended with this server, so it is not created; start the \
             server with --engine off if that is its job"
        );
        Self::new(403, "Forbidden", message)
    }

    pub(super) fn invalid(reason: &dyn std::error::Error) -> Self {
        let source = reason.source().map(|source| format!(": {source}"));
        Self::new(400, "Bad Request", format!("ostler: {reason}{}", source.unwrap_or_default()))
    }

    pub(super) fn head_too_long() -> Self {
        Self::new(431, "Request Header Fields Too Large", "ostler: the head is too long")
    }

    pub(super) fn body_too_long(limit: usize) -> Self {
        let message = format!("ostler: a body of more than {} MiB", limit >> 20);
        Self::new(413, "Payload Too Large", message)
    }

    pub(super) fn cap(limit: usize) -> Self {
        let message = format!("ostler: this server has reached its limit of {limit} containers");
        Self::new(429, "Too Many Requests", message)
    }

    pub(super) fn uncounted(engine: &Unreachable) -> Self {
        let message = format!("ostler: this server's containers can't be counted: {engine}");
        Self::new(503, "Service Unavailable", message)
    }

    pub(super) fn execs(limit: usize) -> Self {
        let message = format!("ostler: more than {limit} processes in other containers");
        Self::new(429, "Too Many Requests", message)
    }

    pub(super) fn no_record(error: &std::io::Error) -> Self {
        let message = format!("ostler: it can't be put on record, so it is not created: {error}");
        Self::new(503, "Service Unavailable", message)
    }

    fn new(status: u16, phrase: &'static str, message: impl Into<String>) -> Self {
        Self { status, phrase, message: message.into() }
    }

    /// The whole answer.
    pub(super) fn bytes(&self, after: After) -> Vec<u8> {
        let body = json!({"message": self.message}).to_string();
        let close = match after {
            After::KeepAlive => "",
            After::Close => "Connection: close\r\n",
        };
        let Self { status, phrase, .. } = self;
        let length = body.len();
        format!(
            "HTTP/1.1 {status} {phrase}\r\nContent-Type: application/json\r\n{close}\
             Content-Length: {length}\r\n\r\n{body}"
        )
        .into_bytes()
    }
}
