//! Termination signals, received through a socket that can be polled.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;

use ostler::Ignored;
use rustix::event::{PollFd, PollFlags};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// SIGTERM, SIGINT and SIGHUP, except those that were ignored at the start (`nohup`).
#[derive(Debug)]
pub(crate) struct Requests(UnixStream);

impl Requests {
    pub(crate) fn listen(ignored: Ignored) -> io::Result<Self> {
        let (reader, writer) = UnixStream::pair()?;
        reader.set_nonblocking(true)?;
        for signal in [SIGTERM, SIGINT, SIGHUP].into_iter().filter(|s| !ignored.contains(*s)) {
            signal_hook::low_level::pipe::register(signal, writer.try_clone()?)?;
        }
        Ok(Self(reader))
    }

    pub(crate) fn poll_fd(&self) -> PollFd<'_> {
        PollFd::new(&self.0, PollFlags::IN)
    }

    /// The socket, for an async runtime: one byte per signal.
    pub(crate) fn into_stream(self) -> UnixStream {
        self.0
    }

    /// Number of signals since the last call.
    pub(crate) fn take(&self) -> usize {
        (&self.0).read(&mut [0; 16]).unwrap_or(0)
    }
}
