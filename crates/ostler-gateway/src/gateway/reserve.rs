//! File descriptors that the gateway reserves for operators.
//!
//! Clients and servers can use up all file descriptors of the process. The gateway then could not accept the
//! connection of an operator who wants to see or end that. So it holds some unused descriptors, and closes one of
//! them when it can't accept a connection at the unix socket otherwise. It serves no new client until the reserve is
//! full again.

use std::os::fd::OwnedFd;
use std::sync::Mutex;

use rustix::event::{EventfdFlags, eventfd};

use crate::mutex::lock;

/// Size of the reserve; a connection of an operator takes one or two descriptors.
const KEPT: usize = 8;

/// Unused descriptors.
#[derive(Debug)]
pub(crate) struct Reserve(Mutex<Vec<OwnedFd>>);

impl Reserve {
    /// Reserves as many descriptors as are free now.
    pub(crate) fn new() -> Self {
        let reserve = Self(Mutex::default());
        reserve.fill();
        reserve
    }

    /// Fills the reserve. Returns false if there are not enough free descriptors.
    pub(crate) fn fill(&self) -> bool {
        let mut kept = lock(&self.0);
        while kept.len() < KEPT {
            let Ok(one) = eventfd(0, EventfdFlags::CLOEXEC) else { return false };
            kept.push(one);
        }
        true
    }

    /// Closes one descriptor of the reserve. Returns false if none is left.
    pub(crate) fn spend(&self) -> bool {
        lock(&self.0).pop().is_some()
    }
}
