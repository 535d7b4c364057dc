//! The shelf: a directory, first on a server's `PATH`, that holds the server's podman wrapper.
//!
//! The wrapper is a script named `podman` whose interpreter is a link to our own executable; its configuration is a
//! file beside it. Each instance has its own shelf, named after the instance id, so a sweep can tell whose it is.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::containers::{EngineDoor, Labels};
use crate::id::InstanceId;
use crate::outcome::Refusal;
use crate::roles::PODMAN as ROLE;
use crate::wire::porter::{Podman, PorterConfig};

/// File name of the wrapper, the name of the real command.
pub(crate) const PODMAN: &str = "podman";
/// File name of the wrapper's configuration.
pub(crate) const WRAPPER_CONFIG: &str = "orders";
/// File name of the list of podman calls that may be about to create something.
pub(crate) const CALLS: &str = "calls";

/// Configuration of the wrapper, as JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct WrapperConfig {
    /// The real command, executed for the server.
    pub(crate) program: PathBuf,
    /// The real command as ostler itself calls it.
    pub(crate) podman: Podman,
    /// Put on everything that the server creates.
    pub(crate) labels: Labels,
    /// Most containers at a time.
    pub(crate) cap: Option<NonZeroUsize>,
    /// The server's Doors to services.
    pub(crate) engines: Vec<EngineDoor>,
    /// Whether the server's podman commands use no service by default, according to the environment it was started
    /// with.
    pub(crate) is_local: bool,
    /// The owner's ledger directory, which also holds the note.
    pub(crate) book: PathBuf,
}

#[derive(Clone, Debug)]
pub(crate) struct Shelf(pub(crate) PathBuf);

impl Shelf {
    pub(crate) fn at(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// File name of an instance's shelf.
    pub(crate) fn name(instance: InstanceId) -> String {
        format!("{instance}.bin")
    }

    /// Creates the shelf of a server whose podman is wrapped.
    pub(crate) fn make(config: &PorterConfig) -> Result<(), Refusal> {
        let (Some(place), Some(podman)) = (&config.ways.shelf, &config.podman) else {
            return Ok(());
        };
        let wrapper = WrapperConfig {
            program: podman.program.clone(),
            podman: podman.podman.clone(),
            labels: config.labels.clone(),
            cap: config.cap,
            engines: config.ways.engines.clone(),
            is_local: podman.is_local,
            book: config.book.clone(),
        };
        let filled = Self::at(place).fill(&podman.own, &wrapper);
        filled.map_err(|error| Refusal::door(place, &error))
    }

    /// Creates the directory and the wrapper, with `own`, the path of our executable, as its interpreter.
    ///
    /// The wrapper is a script rather than a link, because a program that resolves the link would find us instead of
    /// podman.
    fn fill(&self, own: &Path, config: &WrapperConfig) -> io::Result<()> {
        DirBuilder::new().mode(0o700).create(&self.0)?;
        fs::write(self.0.join(WRAPPER_CONFIG), serde_json::to_vec(config)?)?;
        symlink(own, self.0.join(ROLE))?;
        let mut script =
            File::options().write(true).create_new(true).mode(0o700).open(self.podman())?;
        let line = format!("#!{}\n", self.0.join(ROLE).display());
        script.write_all(line.as_bytes())
    }

    /// Removes the directory if its name is that of the instance's shelf.
    pub(crate) fn clear(&self, instance: InstanceId) {
        // A symbolic link could lead to other files of the user.
        let is_directory = || fs::symlink_metadata(&self.0).is_ok_and(|found| found.is_dir());
        let is_named = self.0.file_name().is_some_and(|name| name == Self::name(instance).as_str());
        if is_named && is_directory() {
            // The next sweep removes what could not be removed here.
            let _ = [PODMAN, ROLE, WRAPPER_CONFIG, CALLS]
                .map(|name| fs::remove_file(self.0.join(name)));
            let _ = fs::remove_dir(&self.0);
        }
    }

    /// Path of the wrapper.
    pub(crate) fn podman(&self) -> PathBuf {
        self.0.join(PODMAN)
    }
}
