//! Something that all principals share, and one principal's part of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::QuotaExceeded;

/// This part of a pool is divided among the principals that use it.
pub(super) const RESERVED: usize = 4;

/// Something of which all principals together may use so much.
#[derive(Debug)]
pub(super) struct Pool {
    most: AtomicUsize,
    used: AtomicUsize,
    /// How many principals use some of it.
    users: AtomicUsize,
}

/// What one principal uses of a pool.
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

    /// Whether a principal that uses `own` of it may do so, with `used` in all.
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

    /// Takes so much more, which has to be given back, and leaves `spare` of the principal's own limit.
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

    /// Whether so much could be taken if nothing else was.
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

    /// Counts, and says how much it is then. Every change from and to nothing is one of the pool's users.
    fn add(&self, amount: usize) -> usize {
        let before = self.used.fetch_add(amount, Ordering::Relaxed);
        if before == 0 {
            self.pool.users.fetch_add(1, Ordering::Relaxed);
        }
        before + amount
    }
}

/// How much of a limit something has to leave to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spare {
    Nothing,
    /// An eighth, so that small things find room beside large ones.
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
    fn nobody_can_take_the_part_that_is_for_others() {
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
    fn what_is_for_others_is_divided_among_them() {
        let [hog, second, third] = parts(80);
        assert_eq!(count(&hog), 60);
        assert_eq!(third.take(1, Spare::Nothing), Ok(()));
        assert_eq!(count(&second), 10);
        assert_eq!(count(&third), 9);
    }

    #[test]
    fn a_limit_of_its_own_comes_first_and_what_was_denied_is_not_counted() {
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
