//! The owner of what is measured, with a ledger that is nobody else's.

use std::fs;
use std::path::{Path, PathBuf};

use ostler::{Owner, Places};

use crate::Result;

pub(crate) struct Bench {
    pub(crate) owner: Owner,
    /// For programs that keep a ledger of their own.
    pub(crate) state: State,
}

impl Bench {
    pub(crate) fn new() -> Result<Self> {
        let state = State::new()?;
        let owner = Owner::new(Places::new([state.path().join("ostler")]), "bench")?;
        Ok(Self { owner, state })
    }
}

/// A directory that goes with it.
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
