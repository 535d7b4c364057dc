//! How long sessions wait for their clients.

use std::time::Duration;

/// How long a session waits for its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionLimits {
    /// For a client to answer what its roots are. Without an answer it shares no instance.
    pub roots: Duration,
}

impl Default for SessionLimits {
    fn default() -> Self {
        Self { roots: Duration::from_secs(2) }
    }
}
