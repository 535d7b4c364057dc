//! What reaches a guardian as signals.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGALRM, SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

/// A descriptor that becomes readable when a child has ended.
#[derive(Debug)]
pub(super) struct ChildNotice(UnixStream);

impl ChildNotice {
    pub(super) fn install() -> io::Result<Self> {
        let (reader, writer) = UnixStream::pair()?;
        reader.set_nonblocking(true)?;
        signal_hook::low_level::pipe::register(SIGCHLD, writer)?;
        Ok(Self(reader))
    }

    pub(super) fn clear(&self) {
        // Only the level counts: whoever is woken looks at all children.
        while matches!((&self.0).read(&mut [0; 64]), Ok(1..)) {}
    }
}

impl AsFd for ChildNotice {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Makes the guardian deaf to polite requests: only its owner ends its watch. Handlers, because
/// an ignored signal would stay ignored in the server, which then could not be asked to end.
pub(super) fn outlive_requests() -> io::Result<()> {
    for signal in [SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM] {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    Ok(())
}
