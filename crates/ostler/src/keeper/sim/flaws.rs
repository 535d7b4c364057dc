//! Tests of the rules: they must detect deliberate defects of the world.

use super::schedule;
use super::world::Flaw;

/// At least one schedule in this many must show the defect.
const TRIES: u64 = 40;

fn found(flaw: Flaw, words: &str) {
    let found = (0..TRIES).find_map(|seed| schedule(seed, Some(flaw), false).violation);
    let found = found.unwrap_or_else(|| panic!("{flaw:?} is not detected in {TRIES} schedules"));
    assert!(found.contains(words), "{flaw:?} is detected as: {found}");
}

#[test]
fn an_instance_that_outlives_its_hold_is_detected() {
    found(Flaw::Leaks, "left");
}

#[test]
fn an_instance_that_lives_after_its_proof_is_detected() {
    found(Flaw::Lies, "is reported as gone, and lives");
}

#[test]
fn an_instance_without_a_start_is_detected() {
    found(Flaw::Twins, "lives without a start");
}
