//! Rate limit on the requests of one principal.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

/// Times are in microseconds.
const SECOND: u64 = 1_000_000;
const MINUTE: u64 = 60 * SECOND;
static BEGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Limit on requests per minute, all of which may come in one burst.
///
/// This is GCRA, the generic cell rate algorithm: each request costs its part of a minute, and `paid_until` is the
/// time up to which the requests so far are paid for. A request is accepted if it moves that time no more than a
/// minute ahead of now. The state is a single number, so counting needs no lock.
#[derive(Debug, Default)]
pub(super) struct Rate {
    /// Requests per minute; 0 is no limit.
    most: AtomicU32,
    /// Time in microseconds since `BEGIN`.
    paid_until: AtomicU64,
}

impl Rate {
    pub(super) fn allow(&self, most: Option<u32>) {
        self.most.store(most.unwrap_or(0), Ordering::Relaxed);
    }

    /// Counts requests, or returns the number of seconds after which to try again.
    pub(super) fn count(&self, requests: u32) -> Result<(), u64> {
        match self.most.load(Ordering::Relaxed) {
            0 => Ok(()),
            most => {
                let now = u64::try_from(BEGIN.elapsed().as_micros()).unwrap_or(u64::MAX / 2);
                self.count_at(now, requests, most)
            }
        }
    }

    fn count_at(&self, now: u64, requests: u32, most: u32) -> Result<(), u64> {
        // A batch of more requests than a minute allows costs one minute: it waits until all earlier ones are paid for.
        let cost = MINUTE * u64::from(requests.min(most)) / u64::from(most);
        let mut wait = 0;
        let paid = self.paid_until.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |until| {
            let next = until.max(now) + cost;
            wait = next.saturating_sub(now + MINUTE);
            (wait == 0).then_some(next)
        });
        paid.map(|_| ()).map_err(|_| wait.div_ceil(SECOND))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_requests_of_a_minute_may_come_at_once_and_then_one_after_the_other() {
        let rate = Rate::default();
        let second = SECOND;
        for _ in 0..6 {
            assert_eq!(rate.count_at(second, 1, 6), Ok(()));
        }
        assert_eq!(rate.count_at(second, 1, 6), Err(10));
        assert_eq!(rate.count_at(10 * second, 1, 6), Err(1));
        assert_eq!(rate.count_at(11 * second, 1, 6), Ok(()));
        assert_eq!(rate.count_at(11 * second, 1, 6), Err(10));
        assert_eq!(rate.count_at(70 * second, 5, 6), Ok(()));
        assert_eq!(rate.count_at(70 * second, 2, 6), Err(11));
        assert_eq!(rate.count_at(700 * second, 500, 6), Ok(()));
    }

    #[test]
    fn without_a_limit_every_request_is_allowed() {
        let rate = Rate::default();
        assert_eq!(rate.count(u32::MAX), Ok(()));
        rate.allow(Some(1));
        assert_eq!(rate.count(1), Ok(()));
        assert!(rate.count(1).is_err());
        rate.allow(None);
        assert_eq!(rate.count(1), Ok(()));
    }
}
