//! Lines over pipes, as a runtime reads and writes them.

mod lines;
mod outbox;
mod splitter;

pub(crate) use lines::read;
pub use lines::{Lines, ReadError};
pub use outbox::{Outbox, SendError, Stuck};
