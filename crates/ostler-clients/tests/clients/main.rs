//! Every client: its file is read, linked and unlinked, and comes back byte for byte.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on should stop")]

mod documented;
mod fixtures;
mod home;
mod importing;
mod linking;
mod undoing;
