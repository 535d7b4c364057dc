//! Limits of the HTTP front on numbers, sizes and times.

use std::time::Duration;

use crate::quota::MOST_SESSIONS;

/// Timeouts, and limits on what clients can create.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Deadline for the TLS handshake.
    pub handshake: Duration,
    /// How long a connection may be unused, which is also the deadline for a request head.
    pub head: Duration,
    /// Deadline for a request body.
    pub body: Duration,
    /// Deadline for a client to read the end of the last response, and for input that the gateway discards.
    pub last_words: Duration,
    /// A connection closes if the client does not acknowledge or read data for this long (`TCP_USER_TIMEOUT`).
    pub stalled: Duration,
    /// Interval of keep-alive comments on an idle event stream, and of TCP keep-alive probes.
    pub keep_alive: Duration,
    /// A request without a response by then gets an event stream, whose keep-alives show that the gateway lives.
    pub patience: Duration,
    /// How long a client may be absent before its router session closes, unless the configuration sets it.
    pub detach: Duration,
    /// How long the session id of an absent client stays valid.
    pub expiry: Duration,
    /// Connections at the same time. At the limit, a new one replaces the one that has been unused longest.
    pub connections: usize,
    /// Sessions at the same time. At the limit, a new one replaces one of the principal with the most sessions.
    pub sessions: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(10),
            head: Duration::from_mins(1),
            body: Duration::from_secs(30),
            last_words: Duration::from_secs(1),
            stalled: Duration::from_secs(30),
            keep_alive: Duration::from_secs(15),
            patience: Duration::from_secs(15),
            detach: Duration::from_secs(10),
            expiry: Duration::from_mins(30),
            connections: 4096,
            sessions: MOST_SESSIONS,
        }
    }
}

/// Largest request body in bytes.
pub(super) const BODY: u32 = 16 << 20;
/// Largest body in bytes that is expected to arrive together with its head.
pub(super) const SMALL_BODY: u64 = 16 << 10;
/// Largest request head in bytes.
pub(super) const HEAD: usize = 16 << 10;
/// Most headers in one request.
pub(super) const HEADERS: usize = 100;
/// Backlog of connections that are not accepted yet. Clients beyond it retry, a second later.
pub(super) const PENDING: i32 = 1024;
/// Connections may use `RLIMIT_NOFILE` divided by this number.
pub(super) const DESCRIPTORS: u64 = 2;

/// Most messages that wait for a detached session.
pub(super) const INBOX: usize = 64;
/// Most requests of one session in flight.
pub(super) const REQUESTS: usize = 256;
/// Most GET streams of one client. A new one finishes the oldest.
pub(super) const LISTENERS: usize = 8;

/// Bytes that may wait for a client that does not read. Above half of it, droppable messages are dropped.
pub(super) const BACKLOG: usize = 16 << 20;
/// Bytes of delivered events that are kept for a client that resumes a stream.
pub(super) const KEPT: usize = 256 << 10;
/// How long a finished stream can be resumed.
pub(super) const KEPT_FOR: Duration = Duration::from_mins(1);
/// Bytes of messages that wait for a client without a GET stream.
pub(super) const UNCLAIMED: usize = 256 << 10;
/// Most messages that wait for a client without a GET stream.
pub(super) const UNCLAIMED_COUNT: usize = 64;

/// Delay before a client reconnects a lost stream, in milliseconds.
pub(super) const RETRY: u32 = 1000;
