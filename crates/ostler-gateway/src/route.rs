//! Which servers a client wants.

use std::sync::Arc;

/// Which servers a client wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// One, with its names as they are.
    One(Arc<str>),
    /// All, with names that say which.
    All,
}
