//! Where a server finds the wrapper: a directory of its own, first on its path.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::containers::{Labels, Passage};
use crate::id::InstanceId;
use crate::outcome::Refusal;
use crate::roles::PODMAN as ROLE;
use crate::wire::porter::{Podman, Service};

/// The name of the command, and of the wrapper.
pub(crate) const PODMAN: &str = "podman";
/// What the wrapper has to know, beside it.
pub(crate) const ORDERS: &str = "orders";
/// The calls that may be about to create something, beside it.
pub(crate) const CALLS: &str = "calls";

/// What the wrapper is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Orders {
    /// The real command.
    pub(crate) program: PathBuf,
    /// The same, as ostler itself asks it.
    pub(crate) podman: Podman,
    /// What is put on all that it creates.
    pub(crate) labels: Labels,
    /// How many containers there may be at a time.
    pub(crate) cap: Option<NonZeroUsize>,
    /// The services that the server has a socket of its own to.
    pub(crate) engines: Vec<Passage>,
    /// Whether its commands ask none of them unless they are told to: so it was in the server's own
    /// environment.
    pub(crate) is_local: bool,
    /// The directory of the owner's ledger, where the note is.
    pub(crate) book: PathBuf,
}

/// The directory.
#[derive(Clone, Debug)]
pub(crate) struct Shelf(pub(crate) PathBuf);

impl Shelf {
    pub(crate) fn at(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// What an instance's is called.
    pub(crate) fn name(instance: InstanceId) -> String {
        format!("{instance}.bin")
    }

    /// Makes the shelf of a service, if podman is wrapped for it.
    pub(crate) fn make(service: &Service) -> Result<(), Refusal> {
        let (Some(place), Some(podman)) = (&service.ways.shelf, &service.podman) else {
            return Ok(());
        };
        let orders = Orders {
            program: podman.program.clone(),
            podman: podman.podman.clone(),
            labels: service.labels.clone(),
            cap: service.cap,
            engines: service.ways.engines.clone(),
            is_local: podman.is_local,
            book: service.book.clone(),
        };
        let filled = Self::at(place).fill(&podman.own, &orders);
        filled.map_err(|error| Refusal::door(place, &error))
    }

    /// Puts the wrapper there, which is a script whose interpreter is `own`, the program that we are. It
    /// is no link to that: whoever follows one would find us instead of podman.
    fn fill(&self, own: &Path, orders: &Orders) -> io::Result<()> {
        DirBuilder::new().mode(0o700).create(&self.0)?;
        fs::write(self.0.join(ORDERS), serde_json::to_vec(orders)?)?;
        symlink(own, self.0.join(ROLE))?;
        let mut script =
            File::options().write(true).create_new(true).mode(0o700).open(self.podman())?;
        let line = format!("#!{}\n", self.0.join(ROLE).display());
        script.write_all(line.as_bytes())
    }

    /// Removes it, if its name is the instance's: another one is not ours.
    pub(crate) fn clear(&self, instance: InstanceId) {
        // A link would lead to files of another user.
        let is_directory = || fs::symlink_metadata(&self.0).is_ok_and(|found| found.is_dir());
        let is_named = self.0.file_name().is_some_and(|name| name == Self::name(instance).as_str());
        if is_named && is_directory() {
            // What is not there, or can't be removed, is left to the next sweep.
            let _ = [PODMAN, ROLE, ORDERS, CALLS].map(|name| fs::remove_file(self.0.join(name)));
            let _ = fs::remove_dir(&self.0);
        }
    }

    /// The wrapper.
    pub(crate) fn podman(&self) -> PathBuf {
        self.0.join(PODMAN)
    }
}
