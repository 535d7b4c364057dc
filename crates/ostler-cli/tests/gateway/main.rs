//! The gateway from end to end: real processes, real clients over `ostler connect`, and survivors counted.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

mod admin;
mod ambient;
mod broken_servers;
mod call;
mod catalog;
mod clients;
mod configuration;
mod containers;
mod descriptors;
mod ends;
mod failures;
mod hostile;
mod http;
mod inside;
mod listing;
mod logs;
mod operators;
mod owners;
mod principals;
mod quotas;
mod remote;
mod runtime;
mod sharing;
mod starting;
mod states;
mod terminal;
mod test_gateway;
mod tls;
mod tokens;
mod tools;
mod top;
mod trial;
mod waiting;
