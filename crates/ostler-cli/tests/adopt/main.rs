//! `clients`, `import`, `link`, `unlink`, `add` and `remove` in a home directory of their own.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

mod effects;
mod home;
mod real_hosts;
mod snapshots;
mod terminal;
