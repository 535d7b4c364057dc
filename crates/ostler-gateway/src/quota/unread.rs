//! Bytes of responses that wait for clients to read them.

use std::sync::Arc;

use bytes::Bytes;

use super::Account;
use super::pool::Spare;

/// Largest response in bytes that is not counted: a connection has only one, and the queue of a session few of them.
const LARGE: usize = 16 << 10;

/// Line whose bytes count until it is dropped.
struct HeldBytes {
    line: Bytes,
    account: Arc<Account>,
}

impl Account {
    /// Counts the bytes of a large line until it is dropped. `None` if too many bytes wait already.
    pub(crate) fn hold(self: &Arc<Self>, line: Bytes) -> Option<Bytes> {
        if line.len() <= LARGE {
            return Some(line);
        }
        self.unread.take(line.len(), Spare::Nothing).ok()?;
        Some(Bytes::from_owner(HeldBytes { line, account: Arc::clone(self) }))
    }
}

impl AsRef<[u8]> for HeldBytes {
    fn as_ref(&self) -> &[u8] {
        &self.line
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.account.unread.give_back(self.line.len());
    }
}

#[cfg(test)]
mod tests {
    use ostler::keeper::Principal;

    use super::*;
    use crate::quota::Quotas;

    #[test]
    fn large_answers_count_until_the_last_part_of_them_is_dropped() {
        let quotas = Quotas::default();
        let (one, other) = (Principal::default(), Principal::named("other"));
        let (one, other) = (quotas.account(&one), quotas.account(&other));
        let large = || Bytes::from(vec![b'x'; 16 << 20]);
        let held: Vec<Bytes> = std::iter::from_fn(|| one.hold(large())).take(100).collect();
        assert_eq!(held.len(), 8);
        assert!(one.hold(Bytes::from_static(b"small")).is_some());
        assert!(other.hold(large()).is_some(), "another principal finds room");
        let parts: Vec<Bytes> = held.iter().map(|line| line.slice(..1)).collect();
        drop(held);
        assert!(one.hold(large()).is_none());
        drop(parts);
        assert!(one.hold(large()).is_some());
    }
}
