//! A connection to a remote engine by ssh, through `docker system dial-stdio`, as the docker command itself does it.

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

/// Environment variables that the docker and ssh commands need. None of them influences the dynamic loader.
pub(crate) const SSH_VARIABLES: [&str; 7] =
    ["PATH", "HOME", "USER", "LOGNAME", "SSH_AUTH_SOCK", "XDG_RUNTIME_DIR", "DOCKER_CONFIG"];

/// Time limit for the exit of a killed command.
const END_LIMIT: Duration = Duration::from_secs(1);

/// A docker command that forwards bytes; it is killed when the stream is dropped.
#[derive(Debug)]
pub(super) struct SshStream {
    command: Child,
    /// Two sockets, so that each direction can be closed on its own.
    from: UnixStream,
    to: UnixStream,
}

impl SshStream {
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

impl AsyncRead for SshStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.from).poll_read(cx, buffer)
    }
}

impl AsyncWrite for SshStream {
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

impl Drop for SshStream {
    fn drop(&mut self) {
        // It is our child and not reaped yet, so the pid can't have been recycled. The ssh command that it started has a
        // parent-death signal.
        let handle = pidfd_open(Pid::from_child(&self.command), PidfdFlags::empty());
        let _ = self.command.kill();
        if handle.is_ok_and(|handle| readable(&handle, END_LIMIT).unwrap_or(false)) {
            let _ = self.command.try_wait();
        }
    }
}
