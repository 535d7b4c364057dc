//! The rules of the multiplexer, with servers and clients driven line by line by the test.
#![expect(clippy::expect_used, reason = "a test that can't go on should stop")]

mod all;
mod alone;
mod catalog;
mod growth;
mod ids;
mod keys;
mod kinds;
mod lifecycle;
mod listing;
mod messages;
mod owners;
mod requests;
mod roots;
mod stage;
mod subscriptions;
mod transparency;
mod turns;
mod uris;
