//! The rules of the front on HTTP, with servers and clients that the test plays.
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
