//! A dismissed guardian that still has to be reaped.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::Child;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::graveyard::{Abandoned, reap_later};
use crate::poll::readable;

/// A guardian that was dismissed. It stays a zombie of this process until it is reaped.
///
/// Its descriptor becomes readable once [`reap`](Self::reap) does not have to wait. If it is dropped, a background
/// thread reaps it.
#[derive(Debug)]
pub struct Leaving {
    /// `None` once it was reaped.
    guardian: Option<Child>,
    /// A pidfd.
    handle: OwnedFd,
    limit: Duration,
}

impl Leaving {
    /// `None`: the host has reaped it already.
    pub(super) fn new(guardian: Child, limit: Duration) -> Option<Self> {
        let handle = pidfd_open(Pid::from_child(&guardian), PidfdFlags::empty()).ok()?;
        Some(Self { guardian: Some(guardian), handle, limit })
    }

    /// Waits for its exit and reaps it. Gives up after the control limit.
    pub fn reap(mut self) {
        self.wait();
    }

    fn wait(&mut self) {
        let Some(mut guardian) = self.guardian.take() else { return };
        if readable(&self.handle, self.limit).unwrap_or(false) {
            // An error means that the host has reaped it already.
            let _ = guardian.wait();
        }
    }

    /// Whether it has exited.
    fn has_left(&self) -> bool {
        readable(&self.handle, Duration::ZERO).unwrap_or(false)
    }
}

impl AsFd for Leaving {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

impl Abandoned for Leaving {
    /// Dropping one that has exited reaps it, without waiting.
    fn make_progress(self: Box<Self>) -> Option<Box<dyn Abandoned>> {
        if self.has_left() { None } else { Some(self) }
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        if self.has_left() {
            self.wait();
        } else if let (Some(guardian), Ok(handle)) = (self.guardian.take(), self.handle.try_clone())
        {
            reap_later(Box::new(Self { guardian: Some(guardian), handle, limit: self.limit }));
        }
    }
}
