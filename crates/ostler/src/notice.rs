//! Signals of a guardian or porter, as a descriptor for `poll`.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGALRM, SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

/// A descriptor that becomes readable on SIGCHLD and SIGTERM.
///
/// SIGTERM asks for the end of the instance. It comes from senders without a control socket: `ostler stop`, or a
/// service manager that stops a whole unit. The other signals that would terminate the process get a handler that does
/// nothing. They are not ignored, because the server would inherit that across the exec.
#[derive(Debug)]
pub(crate) struct SignalPipe {
    wake: UnixStream,
    requested: Arc<AtomicBool>,
}

impl SignalPipe {
    pub(crate) fn install() -> io::Result<Self> {
        let (wake, writer) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        let requested = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(SIGTERM, Arc::clone(&requested))?;
        signal_hook::low_level::pipe::register(SIGTERM, writer.try_clone()?)?;
        signal_hook::low_level::pipe::register(SIGCHLD, writer)?;
        for signal in [SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM] {
            signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
        }
        Ok(Self { wake, requested })
    }

    /// Drains the pipe. The bytes carry no information: after a wake-up the caller checks everything.
    pub(crate) fn clear(&self) {
        while matches!((&self.wake).read(&mut [0; 64]), Ok(1..)) {}
    }

    /// Whether SIGTERM has arrived since the last call.
    pub(crate) fn take_term(&self) -> bool {
        self.requested.swap(false, Ordering::Relaxed)
    }
}

impl AsFd for SignalPipe {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}
