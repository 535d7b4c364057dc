//! `ostler doctor` and `ostler reap FIND-ID` on a machine with planted orphans and planted processes in use.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

mod containers;
mod orphans;
mod output;
mod reaping;
mod world;

use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);
