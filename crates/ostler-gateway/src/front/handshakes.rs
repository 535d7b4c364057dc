//! Connections on the unix socket that have not sent their first line.
//!
//! Each of them costs a file descriptor, and its peer has said nothing yet that would justify it. So their number is
//! limited: when it is reached, the next connection makes the oldest one close. The gateway also closes the oldest
//! one when it has no descriptor left to accept a connection. A connection that has sent its first line is no longer
//! counted.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use rustix::process::{Resource, getrlimit};
use tokio::sync::Notify;

/// Limit on these connections: this many, or an eighth of `RLIMIT_NOFILE` if that is less.
const MOST: usize = 64;
const PART_OF_DESCRIPTORS: u64 = 8;

/// Connections that still wait for their first line, oldest first.
#[derive(Debug)]
pub(super) struct Handshakes {
    most: usize,
    waiting: VecDeque<Weak<Notify>>,
}

/// Held by a connection until it has received its first line.
#[derive(Debug)]
pub(super) struct Handshake(Arc<Notify>);

impl Handshakes {
    pub(super) fn new() -> Self {
        let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let part = usize::try_from(descriptors / PART_OF_DESCRIPTORS).unwrap_or(MOST);
        Self { most: part.clamp(1, MOST), waiting: VecDeque::new() }
    }

    /// Adds a connection. At the limit, tells the oldest one to close.
    pub(super) fn add(&mut self) -> Handshake {
        self.waiting.retain(|one| one.strong_count() > 0);
        if self.waiting.len() >= self.most {
            self.dismiss_oldest();
        }
        let told = Arc::default();
        self.waiting.push_back(Arc::downgrade(&told));
        Handshake(told)
    }

    /// Tells the connection that has waited longest to close.
    pub(super) fn dismiss_oldest(&mut self) {
        while let Some(oldest) = self.waiting.pop_front() {
            if let Some(told) = oldest.upgrade() {
                return told.notify_one();
            }
        }
    }
}

impl Handshake {
    /// Waits until this connection has to close.
    pub(super) async fn told(&self) {
        self.0.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_told(handshake: &Handshake) -> bool {
        let told = std::pin::pin!(handshake.told());
        told.poll(&mut std::task::Context::from_waker(std::task::Waker::noop())).is_ready()
    }

    #[test]
    fn the_oldest_silent_handshake_is_closed() {
        let mut all = Handshakes { most: 2, waiting: VecDeque::new() };
        let (spoken, first, second) = (all.add(), all.add(), all.add());
        assert!(is_told(&spoken), "there were two already");
        drop(spoken);
        let third = all.add();
        assert!(is_told(&first) && !is_told(&second) && !is_told(&third));
        drop(second);
        all.dismiss_oldest();
        assert!(is_told(&third), "one that has spoken is not looked at");
    }
}
