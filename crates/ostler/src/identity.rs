//! Identity of a process across pid reuse, and a snapshot of a process.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Identifies a process across pid reuse by its pid and start time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Identity {
    /// Process id.
    pub pid: i32,
    /// Start time, in clock ticks since boot.
    pub start: u64,
}

/// Snapshot of a process in the process table. It may have exited since, and its pid may have been recycled.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Process {
    /// Process id.
    pub pid: i32,
    /// Command name, as in `/proc/PID/stat`.
    pub name: String,
    /// State as in `/proc/PID/stat`: `Z` is a zombie, `D` is in uninterruptible sleep and can't be killed now.
    pub state: char,
    /// Start time, in clock ticks since boot; together with the pid it is the [`Identity`].
    pub start: u64,
    pub(crate) parent: i32,
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}, state {})", self.pid, self.name, self.state)
    }
}
