//! Exponential backoff with jitter for servers that keep failing.
//!
//! The delay doubles with each failure in a row, from `first` up to `most`, and varies by a quarter in both directions.
//! Only an instance that has been ready for `sustained` resets it: a server that answers once and crashes again does
//! not.

use std::time::{Duration, Instant};

/// Delays between starts of a server that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackoffLimits {
    /// Delay after the first failure; each further failure doubles it.
    pub first: Duration,
    /// Upper bound of the delay, before jitter.
    pub most: Duration,
    /// Uptime after which the failure count is reset.
    pub sustained: Duration,
}

impl Default for BackoffLimits {
    fn default() -> Self {
        Self {
            first: Duration::from_millis(500),
            most: Duration::from_mins(1),
            sustained: Duration::from_secs(30),
        }
    }
}

/// Failure count and current delay of one server configuration and principal.
#[derive(Clone, Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
    until: Option<Instant>,
}

impl Backoff {
    /// Records a failure after `uptime`. `share` is a random number from 0 to 1: the jitter keeps
    /// servers that failed together from starting together.
    pub(super) fn fail(
        &mut self,
        limits: &BackoffLimits,
        uptime: Duration,
        share: f64,
        now: Instant,
    ) {
        self.succeed(limits, uptime);
        if uptime >= limits.sustained {
            return;
        }
        let doubled = limits.first.saturating_mul(1 << self.failures.min(20)).min(limits.most);
        self.failures = self.failures.saturating_add(1);
        self.until = Some(now + doubled.mul_f64(0.75 + share.clamp(0.0, 1.0) / 2.0));
    }

    /// Records an end that is no failure, after `uptime`.
    pub(super) fn succeed(&mut self, limits: &BackoffLimits, uptime: Duration) {
        if uptime >= limits.sustained {
            *self = Self::default();
        }
    }

    /// Earliest time of the next start; `None` if it may start now.
    pub(super) fn until(&self, now: Instant) -> Option<Instant> {
        self.until.filter(|until| *until > now)
    }

    /// Like [`Backoff::until`], but also returns a past time until [`Backoff::clear_expired`] drops it.
    pub(super) fn pending(&self) -> Option<Instant> {
        self.until
    }

    pub(super) fn clear_expired(&mut self, now: Instant) {
        self.until = self.until(now);
    }

    pub(super) fn failures(&self) -> u32 {
        self.failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: BackoffLimits = BackoffLimits {
        first: Duration::from_secs(1),
        most: Duration::from_secs(8),
        sustained: Duration::from_secs(30),
    };

    fn wait(backoff: &mut Backoff, uptime: u64) -> Duration {
        let now = Instant::now();
        backoff.fail(&LIMITS, Duration::from_secs(uptime), 0.5, now);
        backoff.until(now).map_or(Duration::ZERO, |until| until - now)
    }

    #[test]
    fn it_doubles_up_to_a_limit() {
        let mut backoff = Backoff::default();
        let waits: Vec<u64> = (0..6).map(|_| wait(&mut backoff, 0).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 8, 8]);
    }

    #[test]
    fn only_sustained_uptime_makes_failures_forgotten() {
        let mut backoff = Backoff::default();
        let waits: Vec<u64> = (0..4).map(|_| wait(&mut backoff, 29).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8]);
        assert_eq!(wait(&mut backoff, 30).as_secs(), 0);
        assert_eq!(wait(&mut backoff, 0).as_secs(), 1);
    }

    /// A past backoff stays pending until it is cleared, because a waiter may still depend on its end.
    #[test]
    fn an_expired_backoff_stays_pending_until_it_is_cleared() {
        let now = Instant::now();
        let mut backoff = Backoff::default();
        backoff.fail(&LIMITS, Duration::ZERO, 0.5, now);
        let later = now + Duration::from_secs(2);
        assert_eq!(backoff.until(later), None);
        assert_eq!(backoff.pending(), Some(now + Duration::from_secs(1)));
        backoff.clear_expired(later);
        assert_eq!(backoff.pending(), None);
    }

    #[test]
    fn the_wait_varies_by_half() {
        let now = Instant::now();
        let wait = |share| {
            let mut backoff = Backoff::default();
            backoff.fail(&LIMITS, Duration::ZERO, share, now);
            backoff.until(now).unwrap() - now
        };
        assert_eq!(wait(0.0), Duration::from_millis(750));
        assert_eq!(wait(1.0), Duration::from_millis(1250));
    }
}
