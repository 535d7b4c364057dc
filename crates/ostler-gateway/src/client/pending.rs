//! The calls of one client that are with servers.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::in_flight::InFlight;

/// Calls by their ids.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    calls: HashMap<Bytes, InFlight>,
    /// At most the shortest time that any of them may take: a call that is answered does not change it.
    shortest: Option<Duration>,
}

impl Pending {
    pub(crate) fn insert(&mut self, id: Bytes, call: InFlight) {
        self.shortest = Some(self.shortest.map_or(call.limit, |limit| limit.min(call.limit)));
        self.calls.insert(id, call);
    }

    pub(crate) fn remove(&mut self, id: &[u8]) -> Option<InFlight> {
        self.calls.remove(id)
    }

    pub(crate) fn get_mut(&mut self, id: &[u8]) -> Option<&mut InFlight> {
        self.calls.get_mut(id)
    }

    pub(crate) fn contains(&self, id: &[u8]) -> bool {
        self.calls.contains_key(id)
    }

    pub(crate) fn len(&self) -> usize {
        self.calls.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = InFlight> + use<> {
        std::mem::take(self).calls.into_values()
    }

    /// How long to wait before it is worth looking for calls that have taken too long.
    pub(crate) fn shortest_limit(&self) -> Option<Duration> {
        self.shortest
    }

    /// Those that have taken too long.
    pub(crate) fn take_late(&mut self, now: Instant) -> Vec<(Bytes, InFlight)> {
        let late = self.calls.extract_if(|_, call| call.until <= now).collect();
        self.shortest = self.calls.values().map(|call| call.limit).min();
        late
    }
}
