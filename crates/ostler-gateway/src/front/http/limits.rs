//! How much anybody may ask for, and how long anything may take.

use std::time::Duration;

use crate::quota::MOST_SESSIONS;

/// How long anything may take, and how many there may be of whatever a client can make more of.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// For both sides to agree upon TLS.
    pub handshake: Duration,
    /// For a head to arrive; also how long a connection may be unused.
    pub head: Duration,
    /// For a body to arrive.
    pub body: Duration,
    /// For what was said last to be read, and for what nobody wants any more to be sent.
    pub last_words: Duration,
    /// What was sent and is not acknowledged, or not read, for so long ends its connection.
    pub stalled: Duration,
    /// On a stream on which nothing else is said.
    pub keep_alive: Duration,
    /// A request that has no answer by then is answered with a stream, so that its client sees that we live.
    pub patience: Duration,
    /// How long a client may be away before its session's servers end, if the configuration does not say it.
    pub detach: Duration,
    /// How long a session is kept for a client that is away.
    pub expiry: Duration,
    /// Connections at one time. Whoever comes then takes the place of the one that has been unused for the longest.
    pub connections: usize,
    /// Sessions at one time. The next one takes the place of one of the principal that has most of them.
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

/// Of the body of one request.
pub(super) const BODY: u32 = 16 << 20;
/// A body that is not larger has most often come together with its head.
pub(super) const SMALL_BODY: u64 = 16 << 10;
/// Of everything before the body.
pub(super) const HEAD: usize = 16 << 10;
/// In one request.
pub(super) const HEADERS: usize = 100;
/// Connections that are not taken yet. More would have to try again, a second later.
pub(super) const PENDING: i32 = 1024;
/// The part of the descriptors of this process that connections may take.
pub(super) const DESCRIPTORS: u64 = 2;

/// Messages of one client that its session has not taken yet.
pub(super) const INBOX: usize = 64;
/// Requests of one session that are not answered yet.
pub(super) const REQUESTS: usize = 256;
/// Streams of one client on which it only listens. The oldest gives way.
pub(super) const LISTENERS: usize = 8;

/// What may wait for a client that does not read. Beyond half of it only what is needed is kept.
pub(super) const BACKLOG: usize = 16 << 20;
/// What is kept of what a client has taken, in case that it did not arrive.
pub(super) const KEPT: usize = 256 << 10;
/// For so long after all was said.
pub(super) const KEPT_FOR: Duration = Duration::from_mins(1);
/// What waits for a client that does not listen to anything.
pub(super) const UNCLAIMED: usize = 256 << 10;
/// As a number of messages.
pub(super) const UNCLAIMED_COUNT: usize = 64;

/// For a client whose stream was cut to come back, in milliseconds.
pub(super) const RETRY: u32 = 1000;
