//! Signals that were ignored when this process began.

use std::fs;
use std::io;

/// The signals that a process ignores.
///
/// Ignored signals survive an exec: `nohup` works that way. Whoever installs a handler over one
/// takes it away from the programs started afterwards, so that it has to be given back to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ignored(u64);

impl Ignored {
    /// What this process ignores now. Rust itself ignores SIGPIPE and restores it for children,
    /// so that one never counts.
    pub fn now() -> io::Result<Self> {
        let status = fs::read_to_string("/proc/self/status")?;
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        let mask = mask.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
        let pipe = 1 << (libc::SIGPIPE - 1);
        mask.map(|mask| Self(mask & !pipe)).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Whether `signal` is one of them.
    pub fn contains(self, signal: i32) -> bool {
        self.iter().any(|ignored| ignored == signal)
    }

    /// Each of them.
    pub fn iter(self) -> impl Iterator<Item = i32> {
        (1..=64).filter(move |signal| self.0 >> (signal - 1) & 1 == 1)
    }
}
