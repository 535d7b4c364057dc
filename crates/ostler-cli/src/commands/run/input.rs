//! The client's end of the server's input: noticing that it ends without reading a byte.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags};
use rustix::fs::{FileType, fstat};

/// Our own copy of stdin. Its flags are shared with the server, so they are left alone.
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
        // Descriptor 0 itself would keep a client from noticing that the server has gone.
        rustix::stdio::dup2_stdin(null()?)?;
        Ok(Self { copy: Some(copy), hangs_up })
    }

    /// The descriptor for the server.
    pub(super) fn for_server(&self) -> io::Result<OwnedFd> {
        self.copy.as_ref().map_or_else(null, OwnedFd::try_clone)
    }

    /// Whether the end of the client shows here, as it does on a pipe or a socket. A file,
    /// /dev/null or a terminal never hangs up.
    pub(super) fn hangs_up(&self) -> bool {
        self.hangs_up
    }

    /// A half-close by a client that gives a socket shows as RDHUP only.
    pub(super) fn poll_fd(&self) -> Option<PollFd<'_>> {
        self.copy.as_ref().map(|copy| PollFd::new(copy, PollFlags::RDHUP))
    }

    /// Lets go of it, so that a client that still writes learns that nobody reads.
    pub(super) fn close(&mut self) {
        self.copy = None;
    }
}

/// A client must see the end of output when the server closes it, not when we end.
pub(super) fn let_go_of_stdout() -> io::Result<()> {
    Ok(rustix::stdio::dup2_stdout(null()?)?)
}

fn null() -> io::Result<OwnedFd> {
    OpenOptions::new().read(true).write(true).open("/dev/null").map(OwnedFd::from)
}
