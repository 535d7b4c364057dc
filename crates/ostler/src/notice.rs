//! What reaches a guardian as signals.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGALRM, SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

/// A descriptor that becomes readable when a child has ended or TERM has come.
///
/// TERM is the request to end the instance, by whoever has no control socket: `ostler stop`, or a
/// service manager that ends a whole unit. Other signals that would end a process change nothing.
/// All of them have handlers, because an ignored signal would stay ignored in the server, which
/// then could not be asked to end.
#[derive(Debug)]
pub(crate) struct Notice {
    wake: UnixStream,
    requested: Arc<AtomicBool>,
}

impl Notice {
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

    /// Only the level counts: whoever is woken looks at everything.
    pub(crate) fn clear(&self) {
        while matches!((&self.wake).read(&mut [0; 64]), Ok(1..)) {}
    }

    /// Whether TERM has come since the last time.
    pub(crate) fn take_request(&self) -> bool {
        self.requested.swap(false, Ordering::Relaxed)
    }
}

impl AsFd for Notice {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}
