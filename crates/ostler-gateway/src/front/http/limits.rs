//! How much anybody may ask for, and how long anything may take.

use std::time::Duration;

/// Of the body of one request.
pub(super) const BODY: usize = 16 << 20;
/// Of all bodies that are being read at one time, in units of [`BODY_UNIT`].
pub(super) const BODIES: usize = (128 << 20) / BODY_UNIT;
pub(super) const BODY_UNIT: usize = 1 << 10;
/// For a body to arrive, with the wait for its turn.
pub(super) const BODY_TIME: Duration = Duration::from_secs(30);
/// Of everything before the body.
pub(super) const HEAD: usize = 64 << 10;
/// In one request.
pub(super) const HEADERS: usize = 100;
/// For a head to arrive; also how long a connection may be unused.
pub(super) const HEAD_TIME: Duration = Duration::from_mins(1);
/// Connections at one time. Whoever comes then takes the place of the one that has been unused for the longest.
pub(super) const CONNECTIONS: usize = 4096;
/// The part of the descriptors of this process that connections may take.
pub(super) const DESCRIPTORS: u64 = 2;
/// What was sent and is not acknowledged, or not read, for so long ends its connection.
pub(super) const STALLED: Duration = Duration::from_secs(30);

/// Sessions at one time. Whoever comes then takes the place of the one that has been away for the longest.
pub(super) const SESSIONS: usize = 4096;
/// How long a session is kept for a client that is away.
pub(super) const EXPIRY: Duration = Duration::from_mins(30);
/// Messages of one client that its session has not taken yet.
pub(super) const INBOX: usize = 64;
/// Requests of one session that are not answered yet.
pub(super) const REQUESTS: usize = 256;
/// Streams of one client on which it only listens. The oldest gives way.
pub(super) const LISTENERS: usize = 8;
/// The longest name of an agent, in bytes.
pub(crate) const AGENT: usize = 128;

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

/// On a stream on which nothing else is said.
pub(super) const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// A request that has no answer by then is answered with a stream, so that its client sees that we live.
pub(super) const PATIENCE: Duration = Duration::from_secs(15);
/// For a client whose stream was cut to come back, in milliseconds.
pub(super) const RETRY: u32 = 1000;
