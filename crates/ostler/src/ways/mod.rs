//! A server's ways to containers: finds them, points the server to them, and clears them without a guardian.
//!
//! This is the only module through which the modules that start and end instances reach the engine part. In a program
//! that was built without the feature `engine` there are no ways, and a server that asks for one is not started.

#[cfg(feature = "engine")]
mod found;
#[cfg(feature = "engine")]
mod place;
#[cfg(feature = "engine")]
mod remains;
#[cfg(not(feature = "engine"))]
mod without;

use std::fs;

#[cfg(feature = "engine")]
pub(crate) use found::Found;
#[cfg(all(feature = "engine", feature = "keeper"))]
pub(crate) use found::makes_container;
#[cfg(feature = "engine")]
pub(crate) use remains::{end, noted_engines};
#[cfg(all(not(feature = "engine"), feature = "keeper"))]
pub(crate) use without::makes_container;
#[cfg(not(feature = "engine"))]
pub(crate) use without::{Found, end, run_podman, run_porter};

use crate::containers::{EngineDoor, Ways};
use crate::id::InstanceId;
use crate::limits::Limits;
#[cfg(feature = "engine")]
pub(crate) use crate::podman::run as run_podman;
#[cfg(feature = "engine")]
pub(crate) use crate::porter::run as run_porter;
use crate::shelf::Shelf;
use crate::terms::GuardianProgram;

/// Options for the removal of containers without a guardian.
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "engine"), expect(dead_code, reason = "nothing is removed then"))]
pub(crate) struct Removal {
    pub(crate) limits: Limits,
    pub(crate) haste: Haste,
    /// Program of the guardians for ostler's own podman commands.
    pub(crate) guardian: GuardianProgram,
}

/// How much time a removal may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Haste {
    /// A caller waits: the removal gives up after [`Limits::containers`].
    Waiting,
    /// No caller waits: an engine that responds gets more time, and late creates are waited for.
    Sweeping,
}

/// Removes the sockets and the shelf of an instance that has ended. A path whose name lacks the instance's id is not
/// touched.
pub(crate) fn remove_files(ways: &Ways, instance: InstanceId) {
    for (number, EngineDoor { socket, .. }) in ways.engines.iter().enumerate() {
        if socket.file_name().is_some_and(|name| name == socket_name(instance, number).as_str()) {
            let _ = fs::remove_file(socket);
        }
    }
    if let Some(place) = &ways.shelf {
        Shelf::at(place).clear(instance);
    }
}

/// File name of the socket of an instance's Door with this number.
pub(crate) fn socket_name(instance: InstanceId, number: usize) -> String {
    match number {
        0 => format!("{instance}.sock"),
        further => format!("{instance}.{further}.sock"),
    }
}
