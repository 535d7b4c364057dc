//! What to run.

use std::ffi::OsString;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A server's command with everything that it starts with.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerSpec {
    /// What people call it.
    pub name: String,
    /// The program, looked up in the `PATH` of [`env`](Self::env) unless it holds a slash.
    pub program: OsString,
    /// Its arguments, without the program's own name.
    pub args: Vec<OsString>,
    /// Its whole environment; nothing is inherited beside it.
    pub env: Vec<(OsString, OsString)>,
    /// Its working directory; the owner's if none is given.
    pub cwd: Option<PathBuf>,
}

impl std::fmt::Debug for ServerSpec {
    /// Arguments and environment carry secrets, so that only the program is shown.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerSpec")
            .field("name", &self.name)
            .field("program", &self.program)
            .field("cwd", &self.cwd)
            .finish_non_exhaustive()
    }
}
