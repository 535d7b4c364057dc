//! Which process is meant, and what was seen of it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Which process: a pid alone may mean another one a moment later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Identity {
    /// Its number.
    pub pid: i32,
    /// When it started, in clock ticks since boot.
    pub start: u64,
}

/// A process as it was seen. Its pid alone may mean another one a moment later.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Process {
    /// Its number.
    pub pid: i32,
    /// Its name.
    pub name: String,
    /// Its state as the kernel writes it; `Z` is a zombie, `D` cannot be killed at the moment.
    pub state: char,
    /// When it started, in clock ticks since boot: with the pid, its identity.
    pub start: u64,
    pub(crate) parent: i32,
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}, state {})", self.pid, self.name, self.state)
    }
}
