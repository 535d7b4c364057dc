//! The packages of a release, installed into fresh directories and used: a handshake, a call, and every process of the launch killed while
//! the client keeps stdin open.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

mod artifacts;
mod deb;
mod image;
mod kills;
mod npm;
mod source;
mod wheel;
