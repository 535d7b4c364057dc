//! Termination signals, received through a socket that can be polled.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ostler::Ignored;
use rustix::event::{PollFd, PollFlags};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// SIGTERM, SIGINT and SIGHUP, except those that were ignored at the start (`nohup`).
#[derive(Debug)]
pub(crate) struct Requests {
    socket: UnixStream,
    /// Number of the last signal; 0 before the first.
    last: Arc<AtomicUsize>,
}

impl Requests {
    pub(crate) fn listen(ignored: Ignored) -> io::Result<Self> {
        let (socket, writer) = UnixStream::pair()?;
        socket.set_nonblocking(true)?;
        let last = Arc::new(AtomicUsize::new(0));
        for signal in [SIGTERM, SIGINT, SIGHUP].into_iter().filter(|s| !ignored.contains(*s)) {
            // Registered first, so that the number is there before the byte.
            let number = signal.unsigned_abs() as usize;
            signal_hook::flag::register_usize(signal, Arc::clone(&last), number)?;
            signal_hook::low_level::pipe::register(signal, writer.try_clone()?)?;
        }
        Ok(Self { socket, last })
    }

    pub(crate) fn poll_fd(&self) -> PollFd<'_> {
        PollFd::new(&self.socket, PollFlags::IN)
    }

    /// The socket, for an async runtime: one byte per signal.
    pub(crate) fn into_stream(self) -> UnixStream {
        self.socket
    }

    /// A copy of the socket, for an async runtime.
    pub(crate) fn stream(&self) -> io::Result<UnixStream> {
        self.socket.try_clone()
    }

    /// Number of signals since the last call.
    pub(crate) fn take(&self) -> usize {
        (&self.socket).read(&mut [0; 16]).unwrap_or(0)
    }

    /// The last signal that arrived, if any.
    pub(crate) fn last(&self) -> Option<i32> {
        let last = i32::try_from(self.last.load(Ordering::SeqCst)).ok()?;
        (last != 0).then_some(last)
    }
}
