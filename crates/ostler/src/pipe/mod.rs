//! Lines over pipes, as a runtime reads and writes them.

mod lines;
mod outbox;
mod splitter;

pub use lines::{Lines, ReadError, read};
pub use outbox::{Outbox, SendError, Stuck};
