//! Resource that all principals share, and the part that one principal uses.
//!
//! Three quarters of a pool go to the principals that come first. The last quarter is reserved: a principal may draw
//! on it only while its total use is within its share, which is the quarter divided by the number of other principals
//! that use the pool. So a principal with heavy use always leaves room for others.
//!
//! All counters are relaxed atomics. `take` adds first and checks then, and subtracts again if it is denied; under
//! contention it may deny a use that would fit, but never grants more than the limit.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::QuotaExceeded;

/// One in this many parts of a pool is divided among the principals that use it.
pub(super) const RESERVED: usize = 4;

/// Resource with a limit for all principals together.
#[derive(Debug)]
pub(super) struct Pool {
    most: AtomicUsize,
    used: AtomicUsize,
    /// Number of principals that use some of it.
    users: AtomicUsize,
}

/// Use and limit of one principal.
#[derive(Debug)]
pub(super) struct Part {
    pool: Arc<Pool>,
    used: AtomicUsize,
    most: AtomicUsize,
}

impl Pool {
    pub(super) fn new(most: usize) -> Self {
        Self { most: most.into(), used: 0.into(), users: 0.into() }
    }

    pub(super) fn allow(&self, most: usize) {
        self.most.store(most, Ordering::Relaxed);
    }

    /// Whether a principal may use `own` of the pool when all principals together use `used`.
    fn permits(&self, own: usize, used: usize) -> bool {
        let most = self.most.load(Ordering::Relaxed);
        let reserved = most / RESERVED;
        let others = self.users.load(Ordering::Relaxed).saturating_sub(1).max(1);
        used <= most - reserved || used <= most && own <= reserved / others
    }
}

impl Part {
    pub(super) fn new(pool: Arc<Pool>) -> Self {
        Self { pool, used: 0.into(), most: usize::MAX.into() }
    }

    pub(super) fn allow(&self, most: usize) {
        self.most.store(most, Ordering::Relaxed);
    }

    /// Takes `amount`, which the caller has to give back, and leaves `spare` of the principal's own limit.
    pub(super) fn take(&self, amount: usize, spare: Spare) -> Result<(), QuotaExceeded> {
        let own = self.add(amount);
        let used = self.pool.used.fetch_add(amount, Ordering::Relaxed) + amount;
        let denied = if own > spare.of(self.most.load(Ordering::Relaxed)) {
            QuotaExceeded::Principal(own - amount)
        } else if !self.pool.permits(own, used) {
            QuotaExceeded::Shared
        } else {
            return Ok(());
        };
        self.give_back(amount);
        Err(denied)
    }

    /// Whether `amount` could be taken if the principal used nothing else.
    pub(super) fn consider(&self, amount: usize, spare: Spare) -> Result<(), QuotaExceeded> {
        let most = self.most.load(Ordering::Relaxed);
        if amount <= spare.of(most) { Ok(()) } else { Err(QuotaExceeded::Never(most)) }
    }

    pub(super) fn give_back(&self, amount: usize) {
        self.pool.used.fetch_sub(amount, Ordering::Relaxed);
        if self.used.fetch_sub(amount, Ordering::Relaxed) == amount {
            self.pool.users.fetch_sub(1, Ordering::Relaxed);
        }
    }

    #[cfg(test)]
    pub(super) fn is_unused(&self) -> bool {
        self.used.load(Ordering::Relaxed) == 0 && self.pool.used.load(Ordering::Relaxed) == 0
    }

    /// Adds to the principal's use, and returns the sum. The step from zero counts the principal as a user of the
    /// pool.
    fn add(&self, amount: usize) -> usize {
        let before = self.used.fetch_add(amount, Ordering::Relaxed);
        if before == 0 {
            self.pool.users.fetch_add(1, Ordering::Relaxed);
        }
        before + amount
    }
}

/// Part of a limit that has to stay free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spare {
    Nothing,
    /// An eighth, so that small requests find room beside large ones.
    Some,
}

impl Spare {
    pub(super) fn of(self, most: usize) -> usize {
        match self {
            Self::Nothing => most,
            Self::Some => most - most / 8,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts<const N: usize>(most: usize) -> [Part; N] {
        let pool = Arc::new(Pool::new(most));
        std::array::from_fn(|_| Part::new(Arc::clone(&pool)))
    }

    fn count(part: &Part) -> usize {
        (0..1000).take_while(|_| part.take(1, Spare::Nothing).is_ok()).count()
    }

    #[test]
    fn no_principal_can_take_the_share_of_the_others() {
        let [first, second, third] = parts(80);
        assert_eq!(count(&first), 60);
        assert_eq!(count(&second), 20);
        assert_eq!(count(&third), 0, "all is taken");
        second.give_back(20);
        assert_eq!(third.take(1, Spare::Nothing), Ok(()));
        assert_eq!(count(&third), 19);
        assert_eq!(first.take(1, Spare::Nothing), Err(QuotaExceeded::Shared));
    }

    #[test]
    fn the_remaining_share_is_divided_among_the_others() {
        let [hog, second, third] = parts(80);
        assert_eq!(count(&hog), 60);
        assert_eq!(third.take(1, Spare::Nothing), Ok(()));
        assert_eq!(count(&second), 10);
        assert_eq!(count(&third), 9);
    }

    #[test]
    fn the_limit_of_a_principal_comes_first_and_refusals_are_not_counted() {
        let [part, other] = parts(80);
        part.allow(16);
        assert_eq!(part.consider(17, Spare::Nothing), Err(QuotaExceeded::Never(16)));
        assert_eq!(part.consider(15, Spare::Some), Err(QuotaExceeded::Never(16)));
        assert_eq!(part.consider(14, Spare::Some), Ok(()));
        assert_eq!(part.take(17, Spare::Nothing), Err(QuotaExceeded::Principal(0)));
        assert_eq!(part.take(14, Spare::Some), Ok(()));
        assert_eq!(part.take(1, Spare::Some), Err(QuotaExceeded::Principal(14)));
        assert_eq!(part.take(2, Spare::Nothing), Ok(()));
        part.give_back(16);
        assert_eq!(part.pool.used.load(Ordering::Relaxed), 0);
        assert_eq!(part.pool.users.load(Ordering::Relaxed), 0);
        assert_eq!(count(&other), 60);
    }

    #[test]
    fn a_small_pool_has_nothing_to_divide() {
        let [one, _] = parts(3);
        assert_eq!(count(&one), 3);
    }
}
