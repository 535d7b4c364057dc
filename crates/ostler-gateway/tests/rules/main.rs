//! The rules of the multiplexer, with servers and clients that the test plays line by line.
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
