//! Detects the death of the client, which is the parent process.

use std::io;
use std::os::fd::OwnedFd;

use ostler::Ignored;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, getppid, pidfd_open};

/// Pidfd of the parent process.
///
/// None if the parent is pid 1, which adopts orphans, or if SIGHUP is ignored (`nohup`): then this process should outlive its parent.
#[derive(Debug)]
pub(super) struct Parent(Option<OwnedFd>);

impl Parent {
    pub(super) fn watch(ignored: Ignored) -> io::Result<Self> {
        let parent = getppid().filter(|parent| *parent != Pid::INIT);
        let Some(parent) = parent.filter(|_| !ignored.contains(signal_hook::consts::SIGHUP)) else {
            return Ok(Self(None));
        };
        match pidfd_open(parent, PidfdFlags::empty()) {
            // If the parent changed meanwhile, the pid may belong to another process.
            Ok(handle) if getppid() == Some(parent) => Ok(Self(Some(handle))),
            Ok(_) | Err(Errno::SRCH) => Err(io::Error::other("the parent process has just died")),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn poll_fd(&self) -> Option<PollFd<'_>> {
        self.0.as_ref().map(|handle| PollFd::new(handle, PollFlags::IN))
    }

    /// Stops watching, after the parent has died.
    pub(super) fn forget(&mut self) {
        self.0 = None;
    }
}
