//! Framing of HTTP/1.1 messages: where a body ends.
//!
//! Shared by the gateway's HTTP server and by the Doors, so that both reject the same ambiguous
//! messages. Anything that another HTTP implementation could frame differently is refused: request smuggling depends on
//! such differences.

mod body;
mod framing;

pub use body::{Body, InvalidChunk};
pub use framing::{GO_ON, InvalidFraming, of_answer, of_request, says};
