//! Connections on the unix socket whose peers have not said yet what they want.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use rustix::process::{Resource, getrlimit};
use tokio::sync::Notify;

/// At most this many, or this part of the gateway's file descriptors. The oldest is closed for the next one.
const MOST: usize = 64;
const PART_OF_DESCRIPTORS: u64 = 8;

/// The connections that still wait for their first line, the oldest first.
#[derive(Debug)]
pub(super) struct Handshakes {
    most: usize,
    waiting: VecDeque<Weak<Notify>>,
}

/// Held by a connection until its first line has come.
#[derive(Debug)]
pub(super) struct Handshake(Arc<Notify>);

impl Handshakes {
    pub(super) fn new() -> Self {
        let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let part = usize::try_from(descriptors / PART_OF_DESCRIPTORS).unwrap_or(MOST);
        Self { most: part.clamp(1, MOST), waiting: VecDeque::new() }
    }

    /// One more. If there are too many the oldest is told to leave.
    pub(super) fn add(&mut self) -> Handshake {
        self.waiting.retain(|one| one.strong_count() > 0);
        if self.waiting.len() >= self.most {
            self.dismiss_oldest();
        }
        let told = Arc::default();
        self.waiting.push_back(Arc::downgrade(&told));
        Handshake(told)
    }

    /// Tells the one that has waited for the longest to leave.
    pub(super) fn dismiss_oldest(&mut self) {
        while let Some(oldest) = self.waiting.pop_front() {
            if let Some(told) = oldest.upgrade() {
                return told.notify_one();
            }
        }
    }
}

impl Handshake {
    /// Waits until the connection has to leave.
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
    fn the_oldest_that_has_said_nothing_leaves() {
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
