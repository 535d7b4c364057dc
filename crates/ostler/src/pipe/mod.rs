//! Reads and writes lines on pipes, on tokio: [`Lines`] for one reader, [`Outbox`] for many writers.

mod lines;
mod outbox;
mod splitter;

pub use lines::{Lines, ReadError, read};
pub use outbox::{Outbox, SendError, Stuck};
