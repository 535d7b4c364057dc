//! The owner of the measured servers, with a ledger in a temporary directory.

use std::fs;
use std::path::{Path, PathBuf};

use ostler::{Owner, Places};

use crate::Result;

pub(crate) struct Bench {
    pub(crate) owner: Owner,
    /// State directory for programs that keep their own ledger.
    pub(crate) state: State,
}

impl Bench {
    pub(crate) fn new() -> Result<Self> {
        let state = State::new()?;
        let owner = Owner::new(Places::new([state.path().join("ostler")]), "bench")?;
        Ok(Self { owner, state })
    }
}

/// Creates a temporary directory that is removed with it.
pub(crate) struct State(PathBuf);

impl State {
    fn new() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("ostler-bench-{}", std::process::id()));
        fs::create_dir(&path)?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for State {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
