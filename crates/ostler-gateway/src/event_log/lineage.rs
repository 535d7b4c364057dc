//! Restart counts of instances.
//!
//! A start counts as a restart only if an instance of the same key failed or was stopped by an operator before it.
//! Growth of a pool, and a start after an idle stop, are no restarts.
//!
//! An instance that fails leaves its count in `vacant` under its key; the next instance of that key takes the count
//! over and adds one. Counts without a live instance are bounded by `MOST_VACANT`.

use std::collections::{HashMap, HashSet};

use ostler::keeper::{Cause, Key, Whose};

/// Most keys whose counts are kept without a live instance.
const MOST_VACANT: usize = 1000;

/// Restart counts of all instances that are not gone.
#[derive(Debug, Default)]
pub(super) struct Lineage {
    live: HashMap<u64, Life>,
    /// Counts that the next instances of each key take over.
    vacant: HashMap<Key, Vec<u64>>,
}

#[derive(Debug)]
struct Life {
    key: Key,
    restarts: u64,
    /// Whether the instance already left its count in `vacant`: it is reported as draining and again as stopping.
    has_left: bool,
}

impl Lineage {
    /// Records the start of an instance of this key.
    pub(super) fn begin(&mut self, number: u64, key: Key) {
        let inherited = self.vacant.get_mut(&key).and_then(Vec::pop);
        if self.vacant.get(&key).is_some_and(Vec::is_empty) {
            self.vacant.remove(&key);
        }
        let restarts = inherited.map_or(0, |count| count + 1);
        self.live.insert(number, Life { key, restarts, has_left: false });
    }

    /// Records that an instance drains or stops for this reason.
    pub(super) fn leave(&mut self, number: u64, cause: &Cause) {
        let Some(life) = self.live.get_mut(&number).filter(|life| !life.has_left) else { return };
        life.has_left = true;
        // An instance of a single call has no successor.
        let has_successor = !matches!(life.key.whose, Whose::Lease(_));
        if has_successor && (cause.is_failure() || *cause == Cause::Operator) {
            self.vacant.entry(life.key.clone()).or_default().push(life.restarts);
        }
        if self.vacant.len() > MOST_VACANT {
            let kept: HashSet<&Key> = self.live.values().map(|life| &life.key).collect();
            self.vacant.retain(|key, _| kept.contains(key));
        }
    }

    /// Removes an instance that is gone.
    pub(super) fn end(&mut self, number: u64) {
        self.live.remove(&number);
    }

    /// Keeps only these instances; the end of all others was missed.
    pub(super) fn retain(&mut self, numbers: &HashSet<u64>) {
        self.live.retain(|number, _| numbers.contains(number));
    }

    pub(super) fn key(&self, number: u64) -> Option<&Key> {
        self.live.get(&number).map(|life| &life.key)
    }

    pub(super) fn restarts(&self, number: u64) -> u64 {
        self.live.get(&number).map_or(0, |life| life.restarts)
    }
}

#[cfg(test)]
mod tests {
    use ostler::keeper::Fingerprint;

    use super::*;

    fn key(whose: Whose) -> Key {
        let fingerprint = Fingerprint::of_text("any");
        Key { server: "a".into(), fingerprint, whose, profile: "".into() }
    }

    #[test]
    fn only_a_successor_has_restarts() {
        let mut lineage = Lineage::default();
        (1..=3).for_each(|number| lineage.begin(number, key(Whose::AllCallers)));
        lineage.leave(2, &Cause::Exited);
        lineage.begin(4, key(Whose::AllCallers));
        lineage.end(2);
        lineage.leave(4, &Cause::Operator);
        lineage.leave(4, &Cause::Operator);
        lineage.begin(5, key(Whose::AllCallers));
        lineage.begin(6, key(Whose::AllCallers));
        assert_eq!([1, 3, 4, 5, 6].map(|number| lineage.restarts(number)), [0, 0, 1, 2, 0]);
    }

    #[test]
    fn a_start_after_an_idle_time_is_no_restart() {
        let mut lineage = Lineage::default();
        lineage.begin(1, key(Whose::AllCallers));
        lineage.leave(1, &Cause::Idle);
        lineage.begin(2, key(Whose::AllCallers));
        assert_eq!(lineage.restarts(2), 0);
    }

    #[test]
    fn the_number_of_remembered_crashes_is_bounded() {
        let mut lineage = Lineage::default();
        for number in 0..10 * MOST_VACANT as u64 {
            lineage.begin(number, key(Whose::Session(number)));
            lineage.leave(number, &Cause::Exited);
            lineage.end(number);
        }
        assert!(lineage.live.is_empty() && lineage.vacant.len() <= MOST_VACANT);
    }
}
