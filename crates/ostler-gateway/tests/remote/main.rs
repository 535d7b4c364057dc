//! Servers that somebody else runs, as clients of the gateway meet them.

mod leaks;
mod lines;
mod logins;
mod refusals;
mod sessions;
mod stage;
mod streams;
