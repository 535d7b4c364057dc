//! How long and how much, towards remote servers.

use std::time::Duration;

/// The times and sizes of a conversation. A call itself has its server's `callTimeout`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteLimits {
    /// For a connection, with the proxy's part and the certificate's.
    pub connect: Duration,
    /// For a connection that is not used: shorter than the five seconds after which many servers hang up,
    /// so that no call is sent on a line that is just being closed.
    pub idle: Duration,
    /// For the server to take what it does not answer, such as a notification.
    pub taken: Duration,
    /// For saying goodbye.
    pub leave: Duration,
    /// For the end of a stream whose answer was heard, so that its connection can be used again.
    pub linger: Duration,
    /// Before a stream is asked for again, unless the server says how long.
    pub retry: Duration,
    /// The longest of these waits, whatever the server says.
    pub retry_most: Duration,
    /// How often in a row a stream is asked for again in vain.
    pub attempts: u32,
    /// How many times it may say that something is elsewhere.
    pub redirects: u32,
    /// The longest message, in bytes.
    pub message: usize,
    /// How much is read of an answer that only says what went wrong, or of metadata, in bytes.
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
