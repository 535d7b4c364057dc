//! The root of the server's process tree, which is the guardian's own child.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::process::Pid;

use super::init_channel::{InitMessage, InitReceiver};

/// The guardian's child from which every process of the instance descends.
#[derive(Debug)]
pub(super) enum Root {
    Server(Pid),
    /// At `strict`.
    Init(Init),
}

/// Pid 1 of the server's PID namespace. The kernel lets it end only after all other processes of the namespace.
#[derive(Debug)]
pub(super) struct Init {
    pub(super) pid: Pid,
    /// A pidfd.
    pub(super) handle: OwnedFd,
    pub(super) server: Pid,
    /// `None` once the init has ended.
    pub(super) channel: Option<InitReceiver>,
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

    /// The init's pidfd. Once it is readable, the namespace is empty.
    pub(super) fn init(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Server(_) => None,
            Self::Init(init) => Some(init.handle.as_fd()),
        }
    }

    pub(super) fn init_channel(&self) -> Option<&InitReceiver> {
        match self {
            Self::Server(_) => None,
            Self::Init(init) => init.channel.as_ref(),
        }
    }

    /// The server's wait status, if the init has reported it since the last call.
    pub(super) fn exit_status(&mut self) -> Option<i32> {
        let Self::Init(init) = self else { return None };
        match init.channel.as_ref()?.next() {
            Ok(Some(InitMessage::Exited(status))) => Some(status),
            Ok(None) => None,
            // The init has ended; the guardian learns its status from `wait`.
            Ok(Some(InitMessage::Started(_) | InitMessage::Refused(_) | InitMessage::Closed))
            | Err(_) => {
                init.channel = None;
                None
            }
        }
    }
}
