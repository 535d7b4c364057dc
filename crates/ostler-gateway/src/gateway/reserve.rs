//! File descriptors that the gateway keeps for operators.
//!
//! Clients and servers can use up all descriptors that the system allows the gateway. It then could not take the
//! connection of an operator who wants to see or end that. So it holds some descriptors that refer to nothing, and closes
//! one of them when the unix socket has a connection that can't be taken otherwise. Until the reserve is full again no
//! new client is served.

use std::os::fd::OwnedFd;
use std::sync::Mutex;

use rustix::event::{EventfdFlags, eventfd};

use crate::mutex::lock;

/// Descriptors that are kept: a connection of an operator takes one or two.
const KEPT: usize = 8;

/// Descriptors that refer to nothing.
#[derive(Debug)]
pub(crate) struct Reserve(Mutex<Vec<OwnedFd>>);

impl Reserve {
    /// As many descriptors as can be had now.
    pub(crate) fn new() -> Self {
        let reserve = Self(Mutex::default());
        reserve.fill();
        reserve
    }

    /// Takes as many descriptors as are missing. False if there are not enough.
    pub(crate) fn fill(&self) -> bool {
        let mut kept = lock(&self.0);
        while kept.len() < KEPT {
            let Ok(one) = eventfd(0, EventfdFlags::CLOEXEC) else { return false };
            kept.push(one);
        }
        true
    }

    /// Gives one descriptor back to the system. False if none is left.
    pub(crate) fn spend(&self) -> bool {
        lock(&self.0).pop().is_some()
    }
}
