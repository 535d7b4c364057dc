//! Remote servers behind the gateway.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

mod inn;
mod issuers;
mod leaks;
mod lines;
mod logins;
mod refusals;
mod sessions;
mod stage;
mod streams;
