//! Where a gateway keeps files.

use std::path::PathBuf;

use ostler::logs::Logs;

/// Directories of a gateway. Without one the gateway works as well, and keeps nothing there.
#[derive(Clone, Debug, Default)]
pub struct Storage {
    /// Lists of servers, so that listing them needs no start.
    pub catalog: Option<PathBuf>,
    /// Stderr of servers.
    pub logs: Option<Logs>,
}
