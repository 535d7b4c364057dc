//! Something that all principals share, and one principal's part of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Denied;

/// This part of a pool is divided among the principals that use it.
pub(super) const RESERVED: usize = 4;

/// Something of which all principals together may use so much.
#[derive(Debug)]
pub(crate) struct Pool {
    most: AtomicUsize,
    used: AtomicUsize,
    /// How many principals use some of it.
    users: AtomicUsize,
}

/// What one principal uses of a pool.
#[derive(Debug)]
pub(crate) struct Part {
    pool: Arc<Pool>,
    used: AtomicUsize,
}

impl Pool {
    pub(crate) fn new(most: usize) -> Self {
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
    pub(crate) fn new(pool: Arc<Pool>) -> Self {
        Self { pool, used: 0.into() }
    }

    /// Takes so much more, which has to be given back.
    pub(crate) fn take(&self, amount: usize) -> Result<(), Denied> {
        let own = self.add(amount);
        let used = self.pool.used.fetch_add(amount, Ordering::Relaxed) + amount;
        if self.pool.permits(own, used) {
            return Ok(());
        }
        self.give_back(amount);
        Err(Denied)
    }

    pub(crate) fn give_back(&self, amount: usize) {
        self.pool.used.fetch_sub(amount, Ordering::Relaxed);
        if self.used.fetch_sub(amount, Ordering::Relaxed) == amount {
            self.pool.users.fetch_sub(1, Ordering::Relaxed);
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn parts<const N: usize>(most: usize) -> [Part; N] {
        let pool = Arc::new(Pool::new(most));
        std::array::from_fn(|_| Part::new(Arc::clone(&pool)))
    }

    fn count(part: &Part) -> usize {
        (0..1000).take_while(|_| part.take(1).is_ok()).count()
    }

    #[test]
    fn nobody_can_take_the_part_that_is_for_others() {
        let [first, second, third] = parts(80);
        assert_eq!(count(&first), 60);
        assert_eq!(count(&second), 20);
        assert_eq!(count(&third), 0, "all is taken");
        second.give_back(20);
        assert_eq!(third.take(1), Ok(()));
        assert_eq!(count(&third), 19);
        assert_eq!(first.take(1), Err(Denied));
    }

    #[test]
    fn what_is_for_others_is_divided_among_them() {
        let [hog, second, third] = parts(80);
        assert_eq!(count(&hog), 60);
        assert_eq!(third.take(1), Ok(()));
        assert_eq!(count(&second), 10);
        assert_eq!(count(&third), 9);
    }

    #[test]
    fn a_small_pool_has_nothing_to_divide() {
        let [one, _] = parts(3);
        assert_eq!(count(&one), 3);
    }
}
