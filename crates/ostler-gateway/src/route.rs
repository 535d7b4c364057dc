//! Servers that a client is connected to.

use std::sync::Arc;

/// Servers that a client is connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// One server, with its names unchanged.
    One(Arc<str>),
    /// All servers as one, with names that identify the server.
    All,
}
