//! Counter of one principal with a limit.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Account;

/// Number in use, and the limit.
#[derive(Debug)]
pub(super) struct Count {
    used: AtomicUsize,
    most: AtomicUsize,
}

impl Default for Count {
    fn default() -> Self {
        Self { used: AtomicUsize::new(0), most: AtomicUsize::new(usize::MAX) }
    }
}

impl Count {
    pub(super) fn allow(&self, most: Option<usize>) {
        self.most.store(most.unwrap_or(usize::MAX), Ordering::Relaxed);
    }

    pub(super) fn most(&self) -> usize {
        self.most.load(Ordering::Relaxed)
    }

    fn take(&self, count: usize) -> bool {
        if count == 0 {
            return true;
        }
        let used = self.used.fetch_add(count, Ordering::Relaxed);
        let is_granted = used.saturating_add(count) <= self.most();
        if !is_granted {
            self.give_back(count);
        }
        is_granted
    }

    fn give_back(&self, count: usize) {
        if count > 0 {
            self.used.fetch_sub(count, Ordering::Relaxed);
        }
    }
}

/// Permits of a principal for this many requests in flight, until it is dropped.
#[derive(Debug)]
pub(crate) struct RequestPermits {
    account: Arc<Account>,
    count: usize,
}

impl RequestPermits {
    pub(super) fn take(account: &Arc<Account>, count: usize) -> Option<Self> {
        let is_granted = account.requests.take(count);
        is_granted.then(|| Self { account: Arc::clone(account), count })
    }

    /// Splits off the permit for one request.
    pub(crate) fn take_one(permits: &mut Option<Self>) -> Option<Self> {
        match permits {
            Some(several) if several.count > 1 => {
                several.count -= 1;
                Some(Self { account: Arc::clone(&several.account), count: 1 })
            }
            _ => permits.take(),
        }
    }
}

impl Drop for RequestPermits {
    fn drop(&mut self) {
        self.account.requests.give_back(self.count);
    }
}
