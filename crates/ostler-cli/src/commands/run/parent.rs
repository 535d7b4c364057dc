//! The client as our parent: its death ends the server too.

use std::io;
use std::os::fd::OwnedFd;

use ostler::Ignored;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, getppid, pidfd_open};

/// A handle on the process that started us.
///
/// Nobody is watched if that was pid 1, which adopts whatever it is given, or if we were told by
/// an ignored SIGHUP (`nohup`) to outlive who started us.
#[derive(Debug)]
pub(super) struct Parent(Option<OwnedFd>);

impl Parent {
    pub(super) fn watch(ignored: Ignored) -> io::Result<Self> {
        let parent = getppid().filter(|parent| *parent != Pid::INIT);
        let Some(parent) = parent.filter(|_| !ignored.contains(signal_hook::consts::SIGHUP)) else {
            return Ok(Self(None));
        };
        match pidfd_open(parent, PidfdFlags::empty()) {
            // A pid that has changed hands is not our parent's any more, and neither is the handle.
            Ok(handle) if getppid() == Some(parent) => Ok(Self(Some(handle))),
            Ok(_) | Err(Errno::SRCH) => Err(io::Error::other("the parent process has just died")),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn poll_fd(&self) -> Option<PollFd<'_>> {
        self.0.as_ref().map(|handle| PollFd::new(handle, PollFlags::IN))
    }

    /// It has died: there is nothing to wait for any more.
    pub(super) fn forget(&mut self) {
        self.0 = None;
    }
}
