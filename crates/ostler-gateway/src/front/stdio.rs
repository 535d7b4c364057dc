//! Client stdin and stdout as file descriptors of another process.
//!
//! `O_NONBLOCK` belongs to the open file description, which the client and its parent share, so the gateway must not
//! set it there. It reopens a pipe through `/proc/self/fd` and gets a description of its own. A socket can't be
//! reopened, so each `recv` and `send` on it carries `MSG_DONTWAIT`. The gateway can't use other kinds of files, such
//! as terminals or regular files; the client then copies the bytes over its connection.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustix::net::{RecvFlags, SendFlags, SocketType, recv, send, sockopt::socket_type};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::unix::pipe;

/// Source of a client's messages.
#[derive(Debug)]
pub(super) enum Input {
    Pipe(pipe::Receiver),
    Socket(Socket),
}

/// Destination of the responses.
#[derive(Debug)]
pub(super) enum Output {
    Pipe(pipe::Sender),
    Socket(Socket),
}

/// Stream socket whose file status flags stay as the client set them.
#[derive(Debug)]
pub(super) struct Socket(AsyncFd<OwnedFd>);

enum Kind {
    Pipe,
    Socket,
    Other,
}

/// Opens both descriptors without blocking; `None` if either of them is neither a pipe nor a stream socket.
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

/// Whether a descriptor is a pipe or a stream socket, which the gateway can use directly.
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

/// Waits until the peer closes its end of a connection, or dies. A peer that only shuts down its writing side has not
/// hung up.
pub(crate) async fn hung_up(connection: impl AsFd) {
    let Ok(own) = connection.as_fd().try_clone_to_owned() else { return };
    // Asks for neither readable data nor buffer space, so that epoll reports only the hang-up.
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
    // SAFETY: the `AsyncFd` alone owns the descriptor and keeps it open as long as it lives, and an `OwnedFd` always
    // refers to the same file.
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
