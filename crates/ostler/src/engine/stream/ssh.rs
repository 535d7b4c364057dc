//! A line to an engine of another machine, as the docker command has it: through ssh, with another
//! docker command at the far end that passes bytes on.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as Socket;
use std::pin::Pin;
use std::process::{Child, Command, Stdio};
use std::task::{Context, Poll};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;

use crate::poll::readable;

/// What the docker and ssh commands have to know of their surroundings. Nothing that a loader heeds.
pub(crate) const SURROUNDINGS: [&str; 7] =
    ["PATH", "HOME", "USER", "LOGNAME", "SSH_AUTH_SOCK", "XDG_RUNTIME_DIR", "DOCKER_CONFIG"];

/// For a command to end that was killed.
const END_LIMIT: Duration = Duration::from_secs(1);

/// A docker command that passes bytes on, and ends with the line.
#[derive(Debug)]
pub(super) struct Dialled {
    command: Child,
    /// Two of them, so that each direction has an end of its own.
    from: UnixStream,
    to: UnixStream,
}

impl Dialled {
    pub(super) fn open(address: &str) -> io::Result<Self> {
        let ((from, stdout), (to, stdin)) = (Socket::pair()?, Socket::pair()?);
        for end in [&from, &to] {
            end.set_nonblocking(true)?;
        }
        let command = Command::new("docker")
            .args(["--host", address, "system", "dial-stdio"])
            .stdin(OwnedFd::from(stdin))
            .stdout(OwnedFd::from(stdout))
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Self { command, from: UnixStream::from_std(from)?, to: UnixStream::from_std(to)? })
    }
}

impl AsyncRead for Dialled {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.from).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Dialled {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.to).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.to).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.to).poll_shutdown(cx)
    }
}

impl Drop for Dialled {
    fn drop(&mut self) {
        // Our own child, which nobody has waited for: the number is still its own. Its ssh command has
        // asked the kernel to be killed along with it.
        let handle = pidfd_open(Pid::from_child(&self.command), PidfdFlags::empty());
        let _ = self.command.kill();
        if handle.is_ok_and(|handle| readable(&handle, END_LIMIT).unwrap_or(false)) {
            let _ = self.command.try_wait();
        }
    }
}
