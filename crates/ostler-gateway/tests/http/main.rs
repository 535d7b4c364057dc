//! The rules of the HTTP front, with servers and clients driven by the test.
#![expect(clippy::expect_used, reason = "a test that can't go on should stop")]

mod away;
mod dialects;
mod fair;
mod hostile;
mod old;
mod refusals;
mod sessions;
mod slow;
mod stage;
mod streams;
