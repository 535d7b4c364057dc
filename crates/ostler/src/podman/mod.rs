//! Podman without a service, where no socket can be proxied.
//!
//! # Theory of operation
//!
//! Without a service, the podman command creates containers itself. Their processes are descendants of the server's
//! guardian and end with it, but podman's database still lists them as running, and their files stay. So the server
//! finds a [wrapper] first on its `PATH`, which is this program under another name. The wrapper adds labels to what is
//! created, records in a [note](store) beside the ledger which store it is in, and executes the real command. When no
//! process of the server is left, ostler calls podman to [remove](clear()) everything with the labels, inside a
//! [fence](command) of the server's level. Unlike an engine, podman does not carry out a create whose command was
//! killed, so two empty lists are proof.
//!
//! A command that uses a service goes through the server's [Door](crate::door) to it, if there is one. A command that
//! names another service, for example with `--url`, is treated like one without a service.

mod cap;
mod clear;
mod command;
mod fenced;
mod output;
mod ownership;
mod shelf;
mod store;
mod wrapper;

pub(crate) use clear::{ClearOptions, clear, list};
pub(crate) use store::{Store, noted};
pub(crate) use wrapper::run;

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::engine::argv::podman_program;
use crate::shelf::PODMAN;
use crate::spec::ServerSpec;
pub(crate) use crate::wire::porter::Podman;

/// The podman command that a server would find.
pub(crate) fn find(spec: &ServerSpec) -> Option<PathBuf> {
    let own = podman_program(spec).filter(|program| program.components().count() > 1);
    if let Some(program) = own {
        let own = std::env::current_dir().unwrap_or_default();
        let base = spec.cwd.as_deref().map_or(own.clone(), |cwd| own.join(cwd));
        return Some(base.join(program)).filter(|program| is_executable(program));
    }
    let path = spec.env.iter().find(|(name, _)| name == "PATH").map(|(_, path)| path.as_os_str());
    find_in(path.unwrap_or(OsStr::new("")), |_| true)
}

/// The first podman in a search path, in directories that satisfy `meant`.
fn find_in(path: &OsStr, meant: impl Fn(&Path) -> bool) -> Option<PathBuf> {
    let places = std::env::split_paths(path).filter(|place| place.is_absolute() && meant(place));
    places.map(|place| place.join(PODMAN)).find(|program| is_executable(program))
}

fn is_executable(program: &Path) -> bool {
    let found = std::fs::metadata(program);
    found.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}
