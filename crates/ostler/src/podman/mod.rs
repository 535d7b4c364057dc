//! Podman without a service: containers that no socket leads to.
//!
//! # Theory of operation
//!
//! A podman command makes its containers itself. They are processes below the server's guardian and
//! end with it, but podman's books don't know that: there they are up for ever, with their files. So
//! the server finds a [wrapper] first on its path, which is this very program under another name. It
//! puts labels on what is created, says in a [note](store) beside the ledger which books it will be
//! in, and becomes the real command. When no process of the server is left, ostler has podman itself
//! [remove](clear()) what has the labels, inside a [fence](command) of the server's level. Nobody finishes a create whose command was killed, so that two
//! empty lists are proof.
//!
//! A command that asks a service goes through the server's [Door](crate::door) to that, if it has one.
//! One that names another service, as by `--url`, is treated like one that asks none.

mod answers;
mod clear;
mod command;
mod fenced;
mod room;
mod shelf;
mod store;
mod whose;
mod wrapper;

pub(crate) use clear::{Clearance, clear, list};
pub(crate) use store::{Store, noted};
pub(crate) use wrapper::run;

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::engine::argv::podman_program;
use crate::shelf::PODMAN;
use crate::spec::ServerSpec;
pub(crate) use crate::wire::porter::Podman;

/// The podman command that a server would find, if there is one.
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

/// The first one on a path, in a place that is `meant`.
fn find_in(path: &OsStr, meant: impl Fn(&Path) -> bool) -> Option<PathBuf> {
    let places = std::env::split_paths(path).filter(|place| place.is_absolute() && meant(place));
    places.map(|place| place.join(PODMAN)).find(|program| is_executable(program))
}

fn is_executable(program: &Path) -> bool {
    let found = std::fs::metadata(program);
    found.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}
