//! Timeouts and size limits for remote servers.

use std::time::Duration;

/// Timeouts and size limits of a conversation. Calls are limited by the server's `callTimeout` instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteLimits {
    /// Timeout for a connection, including proxy tunnel and TLS handshake.
    pub connect: Duration,
    /// Time after which an unused connection is closed. Shorter than the five seconds after which many servers close
    /// it, so that no call is sent on a connection that is being closed.
    pub idle: Duration,
    /// Timeout for messages without a response, for token requests, and for the lock of a login.
    pub taken: Duration,
    /// Timeout for deleting the session.
    pub leave: Duration,
    /// Time to wait for the end of a response stream after the response, to make its connection reusable.
    pub linger: Duration,
    /// First delay before a stream is reopened, unless the server sets one.
    pub retry: Duration,
    /// Longest such delay, also for those that the server sets.
    pub retry_most: Duration,
    /// Consecutive attempts to reopen a stream without progress.
    pub attempts: u32,
    /// Redirects followed for one request.
    pub redirects: u32,
    /// Longest message, in bytes.
    pub message: usize,
    /// Longest error body, metadata document or token response, in bytes.
    pub small: usize,
}

impl Default for RemoteLimits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(15),
            idle: Duration::from_secs(4),
            taken: Duration::from_secs(30),
            leave: Duration::from_secs(1),
            linger: Duration::from_millis(500),
            retry: Duration::from_secs(1),
            retry_most: Duration::from_secs(30),
            attempts: 5,
            redirects: 3,
            message: 64 << 20,
            small: 64 << 10,
        }
    }
}
