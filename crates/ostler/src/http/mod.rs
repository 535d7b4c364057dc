//! What everybody who reads HTTP/1.1 has to know of a message: where it ends.

mod body;
mod framing;

pub use body::{Body, InvalidChunk};
pub use framing::{GO_ON, InvalidFraming, of_answer, of_request, says};
