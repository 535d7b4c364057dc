//! A number of things that one principal has, with a limit.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Account;

/// So many, and how many there may be.
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

    fn take(&self) -> bool {
        let is_granted = self.used.fetch_add(1, Ordering::Relaxed) < self.most();
        if !is_granted {
            self.give_back();
        }
        is_granted
    }

    fn give_back(&self) {
        self.used.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A request of a principal that is not answered yet.
#[derive(Debug)]
pub(crate) struct InFlightRequest(Arc<Account>);

impl InFlightRequest {
    pub(super) fn begin(account: &Arc<Account>) -> Option<Self> {
        account.requests.take().then(|| Self(Arc::clone(account)))
    }
}

impl Drop for InFlightRequest {
    fn drop(&mut self) {
        self.0.requests.give_back();
    }
}
