//! How long to wait before a server that keeps failing is started again.

use std::time::{Duration, Instant};

/// The waits of a server that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackoffLimits {
    /// After the first failure; doubled by each further one.
    pub first: Duration,
    /// Never longer than this.
    pub most: Duration,
    /// Being up for this long, and nothing else, makes failures forgotten.
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

/// The failures of one configuration of a server that one principal has caused.
#[derive(Clone, Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
    until: Option<Instant>,
}

impl Backoff {
    /// An instance has failed after it was up for `uptime`. `share` is a random number from 0 to 1, so
    /// that servers that failed together don't start together.
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

    /// An instance has ended for another reason, after it was up for `uptime`.
    pub(super) fn succeed(&mut self, limits: &BackoffLimits, uptime: Duration) {
        if uptime >= limits.sustained {
            *self = Self::default();
        }
    }

    /// When the next start may be, if not now.
    pub(super) fn until(&self, now: Instant) -> Option<Instant> {
        self.until.filter(|until| *until > now)
    }

    /// The same, until somebody has taken note that it is past.
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

    /// Whoever looks late must not take it for no wait at all: somebody may still wait for its end.
    #[test]
    fn an_end_that_nobody_has_seen_stays_pending() {
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
