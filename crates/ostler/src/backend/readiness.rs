//! Readiness of a descriptor that other code reads.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::task::{Context, Poll, ready};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Registers a duplicate of a descriptor with the runtime to learn when it is readable.
#[derive(Debug)]
pub(super) struct Readiness(AsyncFd<OwnedFd>);

impl Readiness {
    pub(super) fn of(descriptor: BorrowedFd<'_>) -> io::Result<Self> {
        let own = descriptor.try_clone_to_owned()?;
        #[expect(unsafe_code, reason = "the runtime has no safe form of this")]
        // SAFETY: the copy belongs to the `AsyncFd` alone, stays open as long as that lives, and an
        // `OwnedFd` is always the same descriptor.
        let watched = unsafe { AsyncFd::register_with_interest(own, Interest::READABLE) }?;
        Ok(Self(watched))
    }

    /// Calls `read` whenever the descriptor may be readable, until it returns a value.
    pub(super) fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        mut read: impl FnMut() -> Option<T>,
    ) -> Poll<io::Result<T>> {
        loop {
            let mut readable = ready!(self.0.poll_read_ready_mut(cx))?;
            match read() {
                Some(found) => return Poll::Ready(Ok(found)),
                None => readable.clear_ready(),
            }
        }
    }

    /// Waits until the descriptor is readable.
    pub(super) async fn wait(&self) -> io::Result<()> {
        self.0.readable().await.map(|mut readable| readable.retain_ready())
    }
}
