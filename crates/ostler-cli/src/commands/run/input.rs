//! Detects the end of the server's stdin without reading from it.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags};
use rustix::fs::{FileType, fstat};

/// Duplicate of stdin. The server shares its file status flags, so they are not changed.
#[derive(Debug)]
pub(super) struct Input {
    copy: Option<OwnedFd>,
    hangs_up: bool,
}

impl Input {
    pub(super) fn watch() -> io::Result<Self> {
        let copy = io::stdin().as_fd().try_clone_to_owned()?;
        let kind = FileType::from_raw_mode(fstat(&copy)?.st_mode);
        let hangs_up = matches!(kind, FileType::Fifo | FileType::Socket);
        // Descriptor 0 would keep the pipe open after the server has exited.
        rustix::stdio::dup2_stdin(null()?)?;
        Ok(Self { copy: Some(copy), hangs_up })
    }

    /// The descriptor for the server.
    pub(super) fn for_server(&self) -> io::Result<OwnedFd> {
        self.copy.as_ref().map_or_else(null, OwnedFd::try_clone)
    }

    /// Whether the client's end can be detected: on pipes and sockets, not on files, /dev/null or terminals.
    pub(super) fn hangs_up(&self) -> bool {
        self.hangs_up
    }

    /// A client that half-closes a socket causes RDHUP only.
    pub(super) fn poll_fd(&self) -> Option<PollFd<'_>> {
        self.copy.as_ref().map(|copy| PollFd::new(copy, PollFlags::RDHUP))
    }

    /// Closes the duplicate, so that a client that still writes gets EPIPE.
    pub(super) fn close(&mut self) {
        self.copy = None;
    }
}

/// Closes our stdout, so that the client sees EOF when the server closes it, not when this process exits.
pub(super) fn let_go_of_stdout() -> io::Result<()> {
    Ok(rustix::stdio::dup2_stdout(null()?)?)
}

fn null() -> io::Result<OwnedFd> {
    OpenOptions::new().read(true).write(true).open("/dev/null").map(OwnedFd::from)
}
