//! Why a call has no response.

use std::sync::Arc;
use std::time::Duration;

use crate::keeper::cause::Ending;

/// Why a call has no response.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The instance ended during the call.
    #[error(transparent)]
    Ended(Arc<Ending>),
    /// The instance takes no more calls. The call was not sent and may be made on another instance.
    #[error("the instance takes no more calls")]
    Closed,
    /// The scope of the lease was closed.
    #[error("the session is over")]
    ScopeClosed,
    /// The call exceeded its time limit.
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    /// The server's unread input has reached its limit, with this many bytes.
    #[error("the server does not read its input, and {0} bytes are queued already")]
    Backlog(usize),
    /// The server is not configured with [`Speech::Bytes`](crate::keeper::Speech), or its pipes were taken before.
    #[error("the server's pipes are not available: the keeper or another client uses them")]
    NoWire,
    /// The message has the wrong kind for this method: a call needs a request, a notification must not be one.
    #[error("not a request")]
    NotARequest,
}

impl CallError {
    /// Whether the server certainly has not seen the call, so that it may be repeated.
    pub fn was_not_sent(&self) -> bool {
        matches!(self, Self::Closed | Self::Backlog(_))
    }
}
