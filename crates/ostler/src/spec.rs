//! What to run.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

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

impl ServerSpec {
    /// Whether there is anything, executable or not, where the program is looked for.
    pub(crate) fn program_exists(&self) -> bool {
        self.find_program().is_some()
    }

    /// The first file, executable or not, where the program is looked for.
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
    /// Arguments and environment carry secrets, so that only the program is shown.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerSpec")
            .field("name", &self.name)
            .field("program", &self.program)
            .field("cwd", &self.cwd)
            .finish_non_exhaustive()
    }
}
