//! The command of a server.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// A server's command: program, arguments, environment and working directory.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerSpec {
    /// Display name.
    pub name: String,
    /// The program, looked up in the `PATH` of [`env`](Self::env) unless it contains a slash.
    pub program: OsString,
    /// Arguments, without the program's name.
    pub args: Vec<OsString>,
    /// The whole environment; nothing is inherited.
    pub env: Vec<(OsString, OsString)>,
    /// Working directory; `None` for the owner's.
    pub cwd: Option<PathBuf>,
}

impl ServerSpec {
    /// Whether a file for the program exists, executable or not.
    pub(crate) fn program_exists(&self) -> bool {
        self.find_program().is_some()
    }

    /// The first file found for the program, executable or not.
    pub fn find_program(&self) -> Option<PathBuf> {
        let base = self.cwd.as_deref().unwrap_or(Path::new(""));
        if self.program.as_encoded_bytes().contains(&b'/') {
            return Some(base.join(&self.program)).filter(|program| program.exists());
        }
        let path = self.env.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value);
        let directories = path.into_iter().flat_map(std::env::split_paths);
        directories.map(|directory| base.join(directory).join(&self.program)).find(|p| p.exists())
    }
}

impl std::fmt::Debug for ServerSpec {
    /// Omits arguments and environment, because they carry secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerSpec")
            .field("name", &self.name)
            .field("program", &self.program)
            .field("cwd", &self.cwd)
            .finish_non_exhaustive()
    }
}
