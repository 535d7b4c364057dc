//! The guardian's own child.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::process::Pid;

use super::line::{Listener, Word};

/// From whom all descends that the server causes.
#[derive(Debug)]
pub(super) enum Root {
    /// The server itself.
    Server(Pid),
    /// The init of the server's namespace.
    Init(Init),
}

/// The first process of a namespace. It ends after everybody else in it: the kernel sees to that.
#[derive(Debug)]
pub(super) struct Init {
    pub(super) pid: Pid,
    /// A pidfd.
    pub(super) handle: OwnedFd,
    pub(super) server: Pid,
    /// What it says; nothing more once it has ended.
    pub(super) line: Option<Listener>,
}

impl Root {
    pub(super) fn pid(&self) -> Pid {
        match self {
            Self::Server(pid) | Self::Init(Init { pid, .. }) => *pid,
        }
    }

    pub(super) fn server(&self) -> Pid {
        match self {
            Self::Server(server) | Self::Init(Init { server, .. }) => *server,
        }
    }

    /// The init's pidfd. When that has ended, nobody is left in its namespace.
    pub(super) fn init(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Server(_) => None,
            Self::Init(init) => Some(init.handle.as_fd()),
        }
    }

    pub(super) fn line(&self) -> Option<&Listener> {
        match self {
            Self::Server(_) => None,
            Self::Init(init) => init.line.as_ref(),
        }
    }

    /// The server's wait status, if its init has told it since.
    pub(super) fn hear(&mut self) -> Option<i32> {
        let Self::Init(init) = self else { return None };
        match init.line.as_ref()?.next() {
            Ok(Some(Word::Exited(status))) => Some(status),
            Ok(None) => None,
            // It has ended, which its own wait status says as well.
            Ok(Some(Word::Started(_) | Word::Refused(_) | Word::Silence)) | Err(_) => {
                init.line = None;
                None
            }
        }
    }
}
