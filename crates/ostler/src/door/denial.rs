//! Error responses of the Door itself, in the engine's JSON format, so that every client prints them.

use serde_json::json;

use crate::containers::Unreachable;

/// The response to a request that the Door does not forward.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Denial {
    status: u16,
    phrase: &'static str,
    message: String,
}

/// What happens to the connection after the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionAfter {
    KeepAlive,
    Close,
}

impl Denial {
    pub(super) fn closing() -> Self {
        Self::new(503, "Service Unavailable", "ostler: this server is being stopped")
    }

    pub(super) fn too_many_connections() -> Self {
        Self::new(503, "Service Unavailable", "ostler: too many connections to the engine")
    }

    pub(super) fn unlabelled(what: &str) -> Self {
        let message = format!(
            "ostler: refused, because {what} would outlive this server; start the server with \
             --engine off if managing such things is its job"
        );
        Self::new(403, "Forbidden", message)
    }

    pub(super) fn invalid(reason: &dyn std::error::Error) -> Self {
        let source = reason.source().map(|source| format!(": {source}"));
        Self::new(400, "Bad Request", format!("ostler: {reason}{}", source.unwrap_or_default()))
    }

    pub(super) fn head_too_long() -> Self {
        Self::new(431, "Request Header Fields Too Large", "ostler: the request head is too long")
    }

    pub(super) fn body_too_long(limit: usize) -> Self {
        let message = format!("ostler: the request body is larger than {} MiB", limit >> 20);
        Self::new(413, "Payload Too Large", message)
    }

    pub(super) fn too_many_containers(limit: usize) -> Self {
        let message = format!("ostler: this server has reached its limit of {limit} containers");
        Self::new(429, "Too Many Requests", message)
    }

    pub(super) fn uncounted(engine: &Unreachable) -> Self {
        let message = format!("ostler: this server's containers can't be counted: {engine}");
        Self::new(503, "Service Unavailable", message)
    }

    pub(super) fn too_many_execs(limit: usize) -> Self {
        let message =
            format!("ostler: this server has reached the limit of {limit} pending exec sessions");
        Self::new(429, "Too Many Requests", message)
    }

    pub(super) fn not_recorded(error: &std::io::Error) -> Self {
        let message = format!(
            "ostler: refused, because the note beside ostler's ledger can't be written: {error}"
        );
        Self::new(503, "Service Unavailable", message)
    }

    fn new(status: u16, phrase: &'static str, message: impl Into<String>) -> Self {
        Self { status, phrase, message: message.into() }
    }

    /// The complete HTTP response.
    pub(super) fn bytes(&self, after: ConnectionAfter) -> Vec<u8> {
        let body = json!({"message": self.message}).to_string();
        let close = match after {
            ConnectionAfter::KeepAlive => "",
            ConnectionAfter::Close => "Connection: close\r\n",
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
