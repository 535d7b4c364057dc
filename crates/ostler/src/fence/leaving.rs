//! A guardian on its way out.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::Child;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::graveyard::{Late, bury};
use crate::poll::readable;

/// A guardian that may go, and that somebody has to wait for so that no zombie stays.
///
/// Its descriptor polls as readable once [`reap`](Self::reap) does not have to wait. Dropping it
/// leaves the waiting to others.
#[derive(Debug)]
pub struct Leaving {
    /// Taken when it has been waited for.
    guardian: Option<Child>,
    handle: OwnedFd,
    limit: Duration,
}

impl Leaving {
    /// `None`: the host has waited for it already.
    pub(super) fn new(guardian: Child, limit: Duration) -> Option<Self> {
        let handle = pidfd_open(Pid::from_child(&guardian), PidfdFlags::empty()).ok()?;
        Some(Self { guardian: Some(guardian), handle, limit })
    }

    /// Waits for it, no longer than its way out should take.
    pub fn reap(mut self) {
        self.wait();
    }

    fn wait(&mut self) {
        let Some(mut guardian) = self.guardian.take() else { return };
        if readable(&self.handle, self.limit).unwrap_or(false) {
            // An error means that the host has waited for it already.
            let _ = guardian.wait();
        }
    }

    /// Whether it can be waited for without waiting.
    fn has_left(&self) -> bool {
        readable(&self.handle, Duration::ZERO).unwrap_or(false)
    }
}

impl AsFd for Leaving {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

impl Late for Leaving {
    /// One that has left is waited for when it is dropped, and that takes no time.
    fn see_to(self: Box<Self>) -> Option<Box<dyn Late>> {
        if self.has_left() { None } else { Some(self) }
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        if self.has_left() {
            self.wait();
        } else if let (Some(guardian), Ok(handle)) = (self.guardian.take(), self.handle.try_clone())
        {
            bury(Box::new(Self { guardian: Some(guardian), handle, limit: self.limit }));
        }
    }
}
