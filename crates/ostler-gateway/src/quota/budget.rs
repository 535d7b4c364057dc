//! Bytes of waiting requests: those that arrive, that wait for a server to start, or that a server has not read yet.
//!
//! Every session has a `ByteBudget`, and every waiting request holds a `Charge` on it, which gives the bytes back
//! when it is dropped. A charge must fit the limit of the session, the limit of the principal and the pool of the
//! gateway. The first bytes of a session (`FREE`) count for the session only, so most small calls touch no counter
//! that sessions share. Requests above `LARGE` have to leave an eighth of each limit free for small ones. A large
//! request is charged until its line is written to a server; a small one is charged until it is answered.

use std::sync::{Arc, Mutex};

use bytes::Bytes;

use super::pool::Spare;
use super::{Account, QuotaExceeded};
use crate::mutex::lock;

/// Bytes of one session's requests that may wait. A request that waits alone may be larger.
const BYTES_OF_SESSION: usize = 64 << 20;
/// Bytes that count for the session only. Small calls then write to no counter that other sessions write to as well,
/// which would make processors wait for each other's cache lines.
const FREE: usize = 16 << 10;
/// Bytes that are charged for each request beside its own.
const OVERHEAD: usize = 1 << 10;
/// Largest request in bytes that need not leave room for others.
const LARGE: usize = 16 << 10;
/// Longest id in bytes that is copied so that it does not keep its whole request in memory.
const LONG_ID: usize = 1 << 10;

/// Byte budget of one session.
#[derive(Debug)]
pub(crate) struct ByteBudget {
    account: Arc<Account>,
    /// Bytes in use. The account holds those above `FREE`; both change under this lock.
    used: Mutex<usize>,
}

/// Bytes of one request, which count until this is dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    budget: Arc<ByteBudget>,
    /// Bytes, with the overhead.
    amount: usize,
}

/// Line whose bytes count until it is dropped.
struct Charged {
    line: Bytes,
    #[expect(dead_code, reason = "held until it is dropped")]
    charge: Arc<Charge>,
}

impl ByteBudget {
    pub(crate) fn new(account: Arc<Account>) -> Arc<Self> {
        Arc::new(Self { account, used: Mutex::default() })
    }

    pub(crate) fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// Whether a request of this size would fit if no other request waited.
    pub(crate) fn consider(&self, bytes: usize) -> Result<(), QuotaExceeded> {
        self.account.bytes.consider(bytes.saturating_add(OVERHEAD), spare(bytes))
    }

    /// Charges a request of this size.
    pub(crate) fn charge(self: &Arc<Self>, bytes: usize) -> Result<Charge, QuotaExceeded> {
        self.consider(bytes)?;
        let amount = bytes.saturating_add(OVERHEAD);
        self.take(amount, spare(bytes))?;
        Ok(Charge { budget: Arc::clone(self), amount })
    }

    fn take(&self, amount: usize, spare: Spare) -> Result<(), QuotaExceeded> {
        let mut used = lock(&self.used);
        let after = *used + amount;
        if *used > 0 && after > spare.of(BYTES_OF_SESSION) {
            return Err(QuotaExceeded::Session(*used));
        }
        match beyond_free(after) - beyond_free(*used) {
            0 => {}
            shared => self.account.bytes.take(shared, spare)?,
        }
        *used = after;
        Ok(())
    }

    fn give_back(&self, amount: usize) {
        let mut used = lock(&self.used);
        let after = *used - amount;
        match beyond_free(*used) - beyond_free(after) {
            0 => {}
            shared => self.account.bytes.give_back(shared),
        }
        *used = after;
    }
}

fn beyond_free(bytes: usize) -> usize {
    bytes.saturating_sub(FREE)
}

impl Charge {
    /// Raises the charge to this size of the request, if it is larger than before.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), QuotaExceeded> {
        let amount = bytes.saturating_add(OVERHEAD);
        if let Some(more) = amount.checked_sub(self.amount).filter(|more| *more > 0) {
            self.budget.consider(bytes)?;
            self.budget.take(more, spare(bytes))?;
            self.amount = amount;
        }
        Ok(())
    }

    /// Id or progress token that is kept until the response: a copy if the request is large, so that it does not keep
    /// the request in memory.
    pub(crate) fn detached(&self, id: Bytes) -> Bytes {
        if self.is_large() && id.len() <= LONG_ID { Bytes::copy_from_slice(&id) } else { id }
    }

    /// Moves the charge of a large request to its line, so that it ends when the line is written. A small one keeps
    /// its charge.
    pub(crate) fn carry(self: Arc<Self>, line: Bytes, id: &[u8]) -> (Bytes, Option<Arc<Self>>) {
        if !self.is_large() || id.len() > LONG_ID {
            return (line, Some(self));
        }
        (Bytes::from_owner(Charged { line, charge: self }), None)
    }

    fn is_large(&self) -> bool {
        self.amount > LARGE + OVERHEAD
    }
}

fn spare(bytes: usize) -> Spare {
    if bytes > LARGE { Spare::Some } else { Spare::Nothing }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.give_back(self.amount);
    }
}

impl AsRef<[u8]> for Charged {
    fn as_ref(&self) -> &[u8] {
        &self.line
    }
}

#[cfg(test)]
mod tests {
    use ostler::keeper::Principal;

    use super::*;
    use crate::quota::Quotas;

    const BODY: usize = 16 << 20;

    /// Charges of this size until one is denied.
    fn fill(budget: &Arc<ByteBudget>, bytes: usize) -> (Vec<Charge>, QuotaExceeded) {
        let mut charges = Vec::new();
        loop {
            match budget.charge(bytes) {
                Ok(charge) => charges.push(charge),
                Err(denied) => return (charges, denied),
            }
        }
    }

    #[test]
    fn the_bytes_of_a_session_of_a_token_and_of_all_have_a_limit() {
        let quotas = Quotas::default();
        let account = |name: &str| quotas.account(&Principal::named(name));
        let (first, second, third) = (account("a"), account("b"), account("c"));
        let budget = ByteBudget::new(Arc::clone(&first));
        let (of_session, denied) = fill(&budget, BODY);
        assert!(matches!(denied, QuotaExceeded::Session(_)), "{denied:?}");
        assert_eq!(of_session.len(), 3);
        assert!(budget.charge(100).is_ok(), "a small request finds room");
        let mut more: Vec<Charge> = Vec::new();
        let denied = loop {
            let (charges, denied) = fill(&ByteBudget::new(Arc::clone(&first)), BODY);
            more.extend(charges);
            if !matches!(denied, QuotaExceeded::Session(_)) {
                break denied;
            }
        };
        assert!(matches!(denied, QuotaExceeded::Principal(_)), "{denied:?}");
        assert_eq!(of_session.len() + more.len(), 7);
        let others: Vec<Charge> =
            (0..4).flat_map(|_| fill(&ByteBudget::new(Arc::clone(&second)), BODY).0).collect();
        assert!(others.len() >= 4);
        assert!(ByteBudget::new(third).charge(BODY).is_ok(), "another token finds room");
        drop((of_session, more, others));
        assert_eq!(*lock(&budget.used), 0);
    }

    #[test]
    fn a_single_waiting_request_may_exceed_the_budget_of_its_session() {
        let budget = ByteBudget::new(Quotas::default().account(&Principal::default()));
        let alone = budget.charge(BYTES_OF_SESSION + 1).expect("room");
        assert!(matches!(budget.charge(1), Err(QuotaExceeded::Session(_))));
        drop(alone);
        assert!(budget.charge(1).is_ok());
    }

    #[test]
    fn bytes_that_grow_are_counted_and_given_back() {
        let budget = ByteBudget::new(Quotas::default().account(&Principal::default()));
        let mut charge = budget.charge(0).expect("room");
        charge.grow(BODY).expect("room");
        charge.grow(10).expect("no less");
        assert_eq!(*lock(&budget.used), BODY + OVERHEAD);
        assert!(charge.grow(BYTES_OF_SESSION).is_err());
        assert_eq!(*lock(&budget.used), BODY + OVERHEAD);
        let (line, kept) = Arc::new(charge).carry(Bytes::from_static(b"line"), b"1");
        assert!(kept.is_none());
        assert_eq!(*lock(&budget.used), BODY + OVERHEAD);
        drop(line.clone());
        drop(line);
        assert_eq!(*lock(&budget.used), 0);
    }

    #[test]
    fn concurrent_charges_are_all_given_back() {
        let quotas = Quotas::default();
        let account = quotas.account(&Principal::named("a"));
        let budget = ByteBudget::new(Arc::clone(&account));
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let budget = &budget;
                scope.spawn(move || {
                    for round in 0..2000 {
                        let bytes =
                            if (round + thread) % 3 == 0 { 2 * BYTES_OF_SESSION } else { 900 };
                        let charges: Vec<_> = (0..6).map(|_| budget.charge(bytes)).collect();
                        drop(charges);
                    }
                });
            }
        });
        assert_eq!(*lock(&budget.used), 0);
        assert!(account.bytes.is_unused());
    }
}
