//! Signals that this process inherited as ignored.

use std::fs;
use std::io;

/// The set of signals that a process ignores.
///
/// Ignored signals survive an exec: `nohup` works that way. A handler that replaces such a disposition would take it
/// away from child processes, so the launch of a server restores it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ignored(u64);

impl Ignored {
    /// The signals that this process ignores now, except SIGPIPE: Rust itself ignores that, and restores it for
    /// children.
    pub fn now() -> io::Result<Self> {
        let status = fs::read_to_string("/proc/self/status")?;
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        let mask = mask.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
        let pipe = 1 << (libc::SIGPIPE - 1);
        mask.map(|mask| Self(mask & !pipe)).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Whether the set contains `signal`.
    pub fn contains(self, signal: i32) -> bool {
        self.iter().any(|ignored| ignored == signal)
    }

    /// Iterates over the signal numbers of the set.
    pub fn iter(self) -> impl Iterator<Item = i32> {
        (1..=64).filter(move |signal| self.0 >> (signal - 1) & 1 == 1)
    }
}
