//! The calls in flight.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::Reply;
use crate::frame::CallId;

/// Numbers of ours need no protection against chosen ones.
#[derive(Default)]
struct CallIdHasher(u64);

impl Hasher for CallIdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, number: u64) {
        // Spread over the whole word: the table looks at both ends of it.
        self.0 = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// Who waits for which answer.
#[derive(Default)]
pub(super) struct Calls {
    pending: HashMap<CallId, Reply, BuildHasherDefault<CallIdHasher>>,
    last: u64,
    heard: u64,
    is_closed: bool,
}

impl Calls {
    /// `None`: nothing more will be answered.
    pub(super) fn enter(&mut self, reply: Reply) -> Option<CallId> {
        if self.is_closed {
            return None;
        }
        self.last += 1;
        let id = CallId(self.last);
        self.pending.insert(id, reply);
        Some(id)
    }

    pub(super) fn take(&mut self, id: CallId) -> Option<Reply> {
        self.pending.remove(&id)
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.pending.len()
    }

    /// How many messages the server has sent.
    pub(super) fn heard(&self) -> u64 {
        self.heard
    }

    pub(super) fn hear(&mut self) {
        self.heard += 1;
    }

    /// All who still wait.
    pub(super) fn close(&mut self) -> Vec<Reply> {
        self.is_closed = true;
        std::mem::take(&mut self.pending).into_values().collect()
    }
}
