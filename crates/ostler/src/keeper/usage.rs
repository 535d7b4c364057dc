//! Use counter of one instance.
//!
//! Every call passes here, so it uses atomics and no lock. The counter and a "closed" bit share one word: the plan
//! closes an idle instance with one compare-and-swap before it retires it, and no use can begin after that.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

const CLOSED: u64 = 1 << 63;

/// Uses of one instance under way, and the time of the last one.
#[derive(Debug)]
pub(super) struct Usage {
    /// Number of uses; the bit [`CLOSED`] refuses further ones.
    state: AtomicU64,
    born: Instant,
    /// Microseconds from `born` to the last activity.
    last: AtomicU64,
    /// Leases that were granted and not used yet.
    reservations: AtomicU64,
    quiet: Notify,
    /// A call timed out, and the server has sent nothing since.
    suspect: AtomicBool,
}

impl Usage {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            state: AtomicU64::new(0),
            born: now,
            last: AtomicU64::new(0),
            reservations: AtomicU64::new(0),
            quiet: Notify::new(),
            suspect: AtomicBool::new(false),
        }
    }

    /// Begins a use, unless uses are refused. Returns whether it began; each begun use must [`end`](Self::end).
    pub(super) fn begin(&self, now: Instant) -> bool {
        let taken = self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, |state| {
            (state & CLOSED == 0).then_some(state + 1)
        });
        self.mark(now);
        taken.is_ok()
    }

    pub(super) fn end(&self, now: Instant) {
        self.mark(now);
        if self.state.fetch_sub(1, Ordering::AcqRel) == CLOSED + 1 {
            self.quiet.notify_waiters();
        }
    }

    /// Records activity.
    pub(super) fn mark(&self, now: Instant) {
        let micros = now.saturating_duration_since(self.born).as_micros();
        self.last.fetch_max(u64::try_from(micros).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// A lease was granted and is about to be used.
    pub(super) fn reserve(&self) {
        self.reservations.fetch_add(1, Ordering::AcqRel);
    }

    /// The first use of a lease has begun, or the lease was dropped unused.
    pub(super) fn claim(&self) {
        self.reservations.fetch_sub(1, Ordering::AcqRel);
    }

    /// Whether a lease was granted and not used yet.
    pub(super) fn is_reserved(&self) -> bool {
        self.reservations.load(Ordering::Acquire) > 0
    }

    /// Number of uses under way.
    pub(super) fn count(&self) -> usize {
        usize::try_from(self.state.load(Ordering::Acquire) & !CLOSED).unwrap_or(usize::MAX)
    }

    pub(super) fn last(&self) -> Instant {
        self.born + Duration::from_micros(self.last.load(Ordering::Relaxed))
    }

    /// Whether it seems to hang. The next caller gets another instance then.
    pub(super) fn is_suspect(&self) -> bool {
        self.suspect.load(Ordering::Relaxed)
    }

    pub(super) fn suspect(&self, suspect: bool) {
        self.suspect.store(suspect, Ordering::Relaxed);
    }

    /// Refuses further uses.
    pub(super) fn close(&self) {
        self.state.fetch_or(CLOSED, Ordering::AcqRel);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.state.load(Ordering::Acquire) & CLOSED != 0
    }

    /// Refuses further uses if none is under way. Returns whether it did.
    pub(super) fn close_if_idle(&self) -> bool {
        self.state.compare_exchange(0, CLOSED, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Waits until the last use has ended. Further uses must be refused already.
    pub(super) async fn quiet(&self) {
        loop {
            let quiet = self.quiet.notified();
            tokio::pin!(quiet);
            quiet.as_mut().enable();
            if self.count() == 0 {
                return;
            }
            quiet.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_instance_refuses_uses() {
        let now = Instant::now();
        let usage = Usage::new(now);
        assert!(usage.begin(now));
        assert!(!usage.close_if_idle());
        usage.end(now);
        assert!(usage.close_if_idle());
        assert!(!usage.begin(now));
        assert_eq!(usage.count(), 0);
    }

    #[test]
    fn a_reservation_holds_until_every_lease_is_used() {
        let usage = Usage::new(Instant::now());
        usage.reserve();
        usage.reserve();
        usage.claim();
        assert!(usage.is_reserved());
        usage.claim();
        assert!(!usage.is_reserved());
    }

    #[test]
    fn the_last_use_never_moves_back() {
        let now = Instant::now();
        let usage = Usage::new(now);
        usage.mark(now + Duration::from_secs(5));
        usage.mark(now + Duration::from_secs(2));
        assert_eq!(usage.last(), now + Duration::from_secs(5));
    }

    #[tokio::test]
    async fn quiet_comes_with_the_end_of_the_last_use() {
        let now = Instant::now();
        let usage = Usage::new(now);
        assert!(usage.begin(now) && usage.begin(now));
        usage.close();
        let ends = async {
            usage.end(now);
            tokio::task::yield_now().await;
            usage.end(now);
        };
        tokio::join!(usage.quiet(), ends);
    }
}
