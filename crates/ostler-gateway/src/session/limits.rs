//! Time limits of sessions for their clients.

use std::time::Duration;

/// Time limits of a session for its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionLimits {
    /// Time for a client to answer `roots/list`. Without an answer it shares no instance.
    pub roots: Duration,
}

impl Default for SessionLimits {
    fn default() -> Self {
        Self { roots: Duration::from_secs(2) }
    }
}
