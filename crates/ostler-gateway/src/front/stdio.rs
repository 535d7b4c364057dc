//! A client's own descriptors, used without changing anything for those who share them.
//!
//! Whether a descriptor waits is a flag of what it refers to, which the client shares. A pipe is opened anew, so
//! that the flag is our own; a socket can't be, and is told with each call not to wait. Whatever else it may be
//! has to be copied by its owner.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustix::net::{RecvFlags, SendFlags, SocketType, recv, send, sockopt::socket_type};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::unix::pipe;

/// Where a client's messages come from.
#[derive(Debug)]
pub(super) enum Input {
    Pipe(pipe::Receiver),
    Socket(Socket),
}

/// Where its answers go to.
#[derive(Debug)]
pub(super) enum Output {
    Pipe(pipe::Sender),
    Socket(Socket),
}

/// A socket whose flags are not ours to change.
#[derive(Debug)]
pub(super) struct Socket(AsyncFd<OwnedFd>);

enum Kind {
    Pipe,
    Socket,
    Other,
}

/// Both, if they can be used as they are.
pub(super) fn open_both(stdin: OwnedFd, stdout: OwnedFd) -> Option<(Input, Output)> {
    let input = match kind(&stdin) {
        Kind::Pipe => {
            Input::Pipe(pipe::Receiver::from_owned_fd(reopen(&stdin, OFlags::RDONLY)?).ok()?)
        }
        Kind::Socket => Input::Socket(Socket::new(stdin, Interest::READABLE).ok()?),
        Kind::Other => return None,
    };
    let output = match kind(&stdout) {
        Kind::Pipe => {
            Output::Pipe(pipe::Sender::from_owned_fd(reopen(&stdout, OFlags::WRONLY)?).ok()?)
        }
        Kind::Socket => Output::Socket(Socket::new(stdout, Interest::WRITABLE).ok()?),
        Kind::Other => return None,
    };
    Some((input, output))
}

/// Whether a descriptor is one that the gateway may be able to use as it is.
pub fn is_usable(fd: impl AsFd) -> bool {
    !matches!(kind(fd), Kind::Other)
}

fn kind(fd: impl AsFd) -> Kind {
    let Ok(found) = fstat(&fd) else { return Kind::Other };
    match FileType::from_raw_mode(found.st_mode) {
        FileType::Fifo => Kind::Pipe,
        FileType::Socket if socket_type(&fd) == Ok(SocketType::STREAM) => Kind::Socket,
        _ => Kind::Other,
    }
}

fn reopen(fd: &OwnedFd, access: OFlags) -> Option<OwnedFd> {
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    open(path, access | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty()).ok()
}

/// Waits until the other end of a connection is closed, or its holder is dead. That it says nothing more is
/// not enough.
pub(crate) async fn hung_up(connection: impl AsFd) {
    let Ok(own) = connection.as_fd().try_clone_to_owned() else { return };
    // Neither data nor room is of interest, so that only the end remains.
    let Ok(watched) = watch(own, Interest::PRIORITY) else { return };
    while let Ok(mut ready) = watched.ready(Interest::PRIORITY).await {
        if ready.ready().is_read_closed() {
            return;
        }
        ready.clear_ready();
    }
}

impl Socket {
    fn new(fd: OwnedFd, interest: Interest) -> io::Result<Self> {
        watch(fd, interest).map(Self)
    }
}

fn watch(fd: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: the descriptor belongs to the `AsyncFd` alone, stays open as long as that lives, and an
    // `OwnedFd` always refers to the same file.
    #[expect(unsafe_code, reason = "the runtime asks for a promise that the types can't give")]
    let watched = unsafe { AsyncFd::register_with_interest(fd, interest) }?;
    Ok(watched)
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let mut guard = ready!(self.0.poll_read_ready(cx))?;
            let space = buffer.initialize_unfilled();
            let read = guard.try_io(|fd| Ok(recv(fd, &mut *space, RecvFlags::DONTWAIT)?.0));
            match read {
                Ok(Ok(read)) => {
                    buffer.advance(read);
                    return Poll::Ready(Ok(()));
                }
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(Err(error)) => return Poll::Ready(Err(error)),
                Err(_would_block) => {}
            }
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            let mut guard = ready!(self.0.poll_write_ready(cx))?;
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match guard.try_io(|fd| Ok(send(fd, bytes, flags)?)) {
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(written) => return Poll::Ready(written),
                Err(_would_block) => {}
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Input {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Pipe(pipe) => Pin::new(pipe).poll_read(cx, buffer),
            Self::Socket(socket) => Pin::new(socket).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Output {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Pipe(pipe) => Pin::new(pipe).poll_write(cx, bytes),
            Self::Socket(socket) => Pin::new(socket).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
