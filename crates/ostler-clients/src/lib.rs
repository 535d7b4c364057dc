//! Configuration files of MCP clients.
mod format;
mod splice;
mod tree;
mod value;
pub use format::{Edit, EditError, Format, SyntaxError};
pub use value::Value;
