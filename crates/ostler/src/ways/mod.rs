//! A server's ways to containers: which there are, how it is led to them, and what is ended behind them without a
//! guardian.
//!
//! The modules that start and end instances know nothing else of container engines. In a program that was built
//! without the engine part there is no way, and a start that asks for one is refused.

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

use crate::containers::{Passage, Ways};
use crate::id::InstanceId;
use crate::limits::Limits;
#[cfg(feature = "engine")]
pub(crate) use crate::podman::run as run_podman;
#[cfg(feature = "engine")]
pub(crate) use crate::porter::run as run_porter;
use crate::shelf::Shelf;
use crate::terms::GuardianProgram;

/// How what is left is removed.
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "engine"), expect(dead_code, reason = "nothing is removed then"))]
pub(crate) struct Removal {
    pub(crate) limits: Limits,
    pub(crate) haste: Haste,
    /// What guards the commands that ostler has to run for it.
    pub(crate) guardian: GuardianProgram,
}

/// How much time there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Haste {
    /// A caller waits: what is not gone after [`Limits::containers`] is left to others.
    Waiting,
    /// An engine that answers may take its time, and late creates are awaited.
    Sweeping,
}

/// Removes sockets without a listener, and the wrapper that no process calls any more. A name without the instance's id is not ours.
pub(crate) fn demolish(ways: &Ways, instance: InstanceId) {
    for (number, Passage { socket, .. }) in ways.engines.iter().enumerate() {
        if socket.file_name().is_some_and(|name| name == socket_name(instance, number).as_str()) {
            let _ = fs::remove_file(socket);
        }
    }
    if let Some(place) = &ways.shelf {
        Shelf::at(place).clear(instance);
    }
}

/// What the socket of a Door is called, the first of an instance or a further one.
pub(crate) fn socket_name(instance: InstanceId, number: usize) -> String {
    match number {
        0 => format!("{instance}.sock"),
        further => format!("{instance}.{further}.sock"),
    }
}
