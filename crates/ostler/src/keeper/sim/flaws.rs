//! The rules find what is wrong: a world with a flaw does not pass.

use super::schedule;
use super::world::Flaw;

/// Of so many schedules at least one has to show it.
const TRIES: u64 = 40;

fn found(flaw: Flaw, words: &str) {
    let found = (0..TRIES).find_map(|seed| schedule(seed, Some(flaw), false).violation);
    let found = found.unwrap_or_else(|| panic!("{flaw:?} is not found in {TRIES} schedules"));
    assert!(found.contains(words), "{flaw:?} is found as: {found}");
}

#[test]
fn what_is_dropped_and_lives_on_is_found() {
    found(Flaw::Leaks, "left");
}

#[test]
fn what_is_said_to_be_gone_and_lives_is_found() {
    found(Flaw::Lies, "is said to be gone, and lives");
}

#[test]
fn what_is_started_twice_is_found() {
    found(Flaw::Twins, "nobody started it");
}
