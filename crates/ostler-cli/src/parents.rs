//! Detects the death of the client, or of a launcher between the client and this process.

use std::io;
use std::os::fd::OwnedFd;

use ostler::{Ignored, Process};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, getpid, getppid, pidfd_open};

use crate::doctor::is_wrapper;

/// Processes that are watched at most.
const MOST: usize = 16;

/// Pidfds of the parent process and, above each launcher (`npx`, `uvx`, `sh -c`), of its parent too.
///
/// A launcher that is killed leaves its child behind, with the client's pipes still open.
///
/// Empty if the parent is pid 1, which adopts orphans, or if SIGHUP is ignored (`nohup`): then this process should outlive its parent.
#[derive(Debug)]
pub(crate) struct Parents(Vec<OwnedFd>);

impl Parents {
    pub(crate) fn watch(ignored: Ignored) -> io::Result<Self> {
        let mut handles = Vec::new();
        let mut child = getpid();
        let is_watched = !ignored.contains(signal_hook::consts::SIGHUP);
        while is_watched && handles.len() < MOST {
            let Some(parent) = parent_of(child).filter(|parent| *parent != Pid::INIT) else {
                break;
            };
            match pidfd_open(parent, PidfdFlags::empty()) {
                // If the parent changed meanwhile, the pid may belong to another process.
                Ok(handle) if parent_of(child) == Some(parent) => handles.push(handle),
                Ok(_) | Err(Errno::SRCH) => {
                    return Err(io::Error::other("the parent process has just died"));
                }
                Err(error) => return Err(error.into()),
            }
            if !is_launcher(parent) {
                break;
            }
            child = parent;
        }
        Ok(Self(handles))
    }

    /// Descriptors that become readable when one of the processes dies.
    pub(crate) fn poll_fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        self.0.iter().map(|handle| PollFd::new(handle, PollFlags::IN))
    }

    /// Stops watching, after one of them has died.
    pub(crate) fn forget(&mut self) {
        self.0.clear();
    }
}

fn parent_of(child: Pid) -> Option<Pid> {
    if child == getpid() {
        return getppid();
    }
    Pid::from_raw(Process::with_pid(child.as_raw_pid())?.parent())
}

fn is_launcher(pid: Pid) -> bool {
    Process::with_pid(pid.as_raw_pid()).is_some_and(|process| is_wrapper(&process.words()))
}
