//! Table of the calls in flight to one instance.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::Reply;
use crate::frame::CallId;

/// Hasher for call ids. The keeper assigns them, so they need no protection against collisions.
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
        // Spread over the whole word: the hash table uses its high and low bits.
        self.0 = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// Callbacks of the calls in flight, by id.
#[derive(Default)]
pub(super) struct Calls {
    pending: HashMap<CallId, Reply, BuildHasherDefault<CallIdHasher>>,
    last: u64,
    heard: u64,
    is_closed: bool,
}

impl Calls {
    /// Adds a call. `None` if the instance has ended.
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

    /// Number of calls in flight.
    pub(super) fn count(&self) -> usize {
        self.pending.len()
    }

    /// Number of messages the server has sent.
    pub(super) fn heard(&self) -> u64 {
        self.heard
    }

    pub(super) fn hear(&mut self) {
        self.heard += 1;
    }

    /// Refuses further calls and returns the callbacks of those in flight.
    pub(super) fn close(&mut self) -> Vec<Reply> {
        self.is_closed = true;
        std::mem::take(&mut self.pending).into_values().collect()
    }
}
