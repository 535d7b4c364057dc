//! HTTP error responses.

use std::borrow::Cow;

use hyper::StatusCode;

use super::limits::{BODY, HEAD, HEADERS};
use super::response::Response;
use crate::agents::LONGEST_NAME;
use crate::gateway::AdmissionError;
use crate::protocol::message::{self, code};
use crate::quota::QuotaExceeded;

/// Header with the number of seconds after which to try again.
const RETRY_AFTER: &str = "retry-after";

/// Why the gateway refuses a request.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    #[error("the head of the request is malformed")]
    Head,
    #[error(transparent)]
    Framing(#[from] ostler::http::InvalidFraming),
    #[error("the head of the request has more than {HEAD} bytes, or more than {HEADERS} headers")]
    LargeHead,
    #[error("the Host header names no host of this gateway; `--host-name` adds one")]
    Host,
    #[error("this Origin is not allowed")]
    Origin,
    #[error("a bearer token is needed")]
    NoToken,
    #[error("unknown bearer token")]
    Token,
    #[error("this token belongs to another agent")]
    ForeignAgent,
    #[error("an agent's name has 1 to {LONGEST_NAME} visible characters")]
    Agent,
    #[error("no such path: servers are at /mcp, /mcp/NAME and /sse")]
    Path,
    #[error("this path does not support the HTTP method of the request")]
    Method,
    #[error("the client must accept application/json and text/event-stream")]
    Accept,
    #[error("the client must accept text/event-stream")]
    AcceptStream,
    #[error("the content type must be application/json")]
    MediaType,
    #[error("the body has more than {BODY} bytes")]
    Large,
    #[error("the body did not arrive in time")]
    Slow,
    #[error(transparent)]
    Unreadable(#[from] ostler::http::InvalidChunk),
    #[error("unknown protocol version")]
    Version,
    #[error("it is not JSON")]
    NotJson,
    #[error("{0}")]
    Invalid(String),
    #[error("the Mcp-Session-Id header is missing")]
    NoSession,
    #[error("there is no such session")]
    UnknownSession,
    #[error("too many requests of this session are in flight")]
    Busy,
    #[error("there are too many sessions")]
    Full,
    #[error("this token has {0} sessions already; end one, or try again later")]
    Sessions(usize),
    #[error("{0} requests of this token are in flight already; try again when some are answered")]
    Requests(usize),
    #[error("this token has used its share of connections; try again later")]
    Connections,
    #[error(transparent)]
    Waiting(#[from] QuotaExceeded),
    #[error("this token has used its requests of this minute; try again in {0} s")]
    Pace(u64),
    #[error("the gateway is shutting down")]
    Closing,
    #[error(transparent)]
    AdmissionError(#[from] AdmissionError),
    #[error("no session can be opened: {0}")]
    NoId(std::io::Error),
}

impl Refusal {
    fn status(&self) -> StatusCode {
        match self {
            Self::Host | Self::Origin | Self::ForeignAgent => StatusCode::FORBIDDEN,
            Self::NoToken | Self::Token => StatusCode::UNAUTHORIZED,
            Self::Path | Self::UnknownSession | Self::AdmissionError(_) => StatusCode::NOT_FOUND,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::Accept | Self::AcceptStream => StatusCode::NOT_ACCEPTABLE,
            Self::MediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Large | Self::Waiting(QuotaExceeded::Never(_)) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::LargeHead => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::Slow => StatusCode::REQUEST_TIMEOUT,
            Self::Head
            | Self::Framing(_)
            | Self::Agent
            | Self::Unreadable(_)
            | Self::Version
            | Self::NotJson
            | Self::Invalid(_)
            | Self::NoSession => StatusCode::BAD_REQUEST,
            Self::Busy
            | Self::Sessions(_)
            | Self::Requests(_)
            | Self::Connections
            | Self::Waiting(QuotaExceeded::Session(_) | QuotaExceeded::Principal(_))
            | Self::Pace(_) => StatusCode::TOO_MANY_REQUESTS,
            Self::Full | Self::Waiting(QuotaExceeded::Shared) | Self::Closing | Self::NoId(_) => {
                StatusCode::SERVICE_UNAVAILABLE
            }
        }
    }

    /// Header that tells a program how to go on.
    fn header(&self) -> Option<(&'static str, Cow<'static, str>)> {
        match self {
            Self::NoToken | Self::Token => Some(("www-authenticate", "Bearer".into())),
            Self::Method => Some(("allow", "GET, POST, DELETE".into())),
            Self::Pace(seconds) => Some((RETRY_AFTER, seconds.to_string().into())),
            Self::Busy
            | Self::Full
            | Self::Sessions(_)
            | Self::Requests(_)
            | Self::Connections
            | Self::Waiting(
                QuotaExceeded::Session(_) | QuotaExceeded::Principal(_) | QuotaExceeded::Shared,
            )
            | Self::Closing => Some((RETRY_AFTER, "1".into())),
            _ => None,
        }
    }

    pub(super) fn into_response(self) -> Response {
        let code = match &self {
            Self::NotJson => code::PARSE,
            Self::Full | Self::Closing | Self::NoId(_) => code::INTERNAL,
            _ => code::INVALID_REQUEST,
        };
        let response = Response::json(message::error(b"", code, &self.to_string(), None));
        Response { status: self.status(), header: self.header(), ..response }
    }
}
