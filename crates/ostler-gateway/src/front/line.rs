//! Reads one line from a connection, with the file descriptors that came along.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use serde::de::DeserializeOwned;
use tokio::io::Interest;
use tokio::net::UnixStream;

use super::hello::LONGEST;

/// Number of file descriptors that a client sends: stdin and stdout.
pub(super) const DESCRIPTORS: usize = 2;

/// Why a line could not be read.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// The peer closed the connection.
    #[error("the connection was closed")]
    Closed,
    /// The line exceeds the limit.
    #[error("a line of more than {0} bytes")]
    Long(usize),
    /// The line is not the expected JSON.
    #[error("it is not understood")]
    Strange(#[from] serde_json::Error),
    /// A system call failed.
    #[error(transparent)]
    Failed(#[from] io::Error),
}

/// Line that arrives in pieces.
#[derive(Debug)]
pub(super) struct IncomingLine {
    text: Vec<u8>,
    /// Limit on its length, in bytes.
    longest: usize,
    pub(super) descriptors: Vec<OwnedFd>,
}

impl IncomingLine {
    /// A line of at most this many bytes.
    pub(super) fn up_to(longest: usize) -> Self {
        Self { text: Vec::new(), longest, descriptors: Vec::new() }
    }

    /// Parses the line; `None` until all of it has arrived.
    pub(super) fn parse<T: DeserializeOwned>(&self) -> Option<Result<T, LineError>> {
        // Nothing is read behind the end of the line.
        let line = self.text.strip_suffix(b"\n")?;
        Some(serde_json::from_slice(line).map_err(Into::into))
    }

    /// Reads the bytes that have arrived, up to the end of the line: the bytes behind it belong to the session.
    pub(super) fn take(&mut self, from: impl AsFd, flags: RecvFlags) -> Result<(), LineError> {
        let peeked = peek(&from, flags)?;
        let length = memchr::memchr(b'\n', &peeked).map_or(peeked.len(), |end| end + 1);
        let mut bytes = vec![0; length];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let flags = flags | RecvFlags::CMSG_CLOEXEC;
        let received = recvmsg(&from, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, flags)
            .map_err(error)?;
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                self.descriptors.extend(descriptors);
            }
        }
        self.text.extend_from_slice(&bytes[..received.bytes]);
        if self.text.len() > self.longest { Err(LineError::Long(self.longest)) } else { Ok(()) }
    }
}

fn peek(from: impl AsFd, flags: RecvFlags) -> Result<Vec<u8>, LineError> {
    let mut bytes = vec![0; 64 << 10];
    let (read, _) =
        rustix::net::recv(&from, &mut *bytes, flags | RecvFlags::PEEK).map_err(error)?;
    bytes.truncate(read);
    if bytes.is_empty() { Err(LineError::Closed) } else { Ok(bytes) }
}

fn error(errno: Errno) -> LineError {
    match errno {
        Errno::CONNRESET => LineError::Closed,
        errno => LineError::Failed(errno.into()),
    }
}

/// Reads one line from a connection.
pub(super) async fn receive<T: DeserializeOwned>(
    from: &UnixStream,
) -> Result<(T, Vec<OwnedFd>), LineError> {
    let mut line = IncomingLine::up_to(LONGEST);
    loop {
        if let Some(value) = line.parse() {
            return Ok((value?, line.descriptors));
        }
        from.readable().await?;
        let taken =
            from.try_io(Interest::READABLE, || match line.take(from, RecvFlags::DONTWAIT) {
                Err(LineError::Failed(error)) => Err(error),
                other => Ok(other),
            });
        match taken {
            Ok(taken) => taken?,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
}
