//! The other end: how a command of ours speaks with a gateway. It blocks, and needs no runtime.

use std::io::{self, IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::{PidfdFlags, getuid, pidfd_open};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::hello::{Greeting, Hello};
use super::line::{DESCRIPTORS, IncomingLine, LineError};
use super::socket::GatewaySocket;

/// For a gateway that lives to say so.
const GREETING_LIMIT: Duration = Duration::from_secs(10);

/// Why a gateway can't be spoken with.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// Nobody listens, or it is about to end.
    #[error("no gateway runs there")]
    Nobody,
    /// It is somebody else's.
    #[error("the gateway there belongs to another user")]
    Foreign,
    /// It does not answer as it should.
    #[error("the gateway there does not answer")]
    Silent(#[source] LineError),
    /// The connection failed.
    #[error("the gateway can't be reached")]
    Failed(#[from] io::Error),
}

/// A connection to a gateway that has greeted.
#[derive(Debug)]
pub struct GatewayConnection {
    stream: UnixStream,
    /// What it said.
    pub greeting: Greeting,
}

impl GatewayConnection {
    /// Connects.
    pub fn to(socket: &GatewaySocket) -> Result<Self, DialError> {
        let stream = UnixStream::connect(socket.path()).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => DialError::Nobody,
            _ => DialError::Failed(error),
        })?;
        let peer = socket_peercred(&stream).map_err(io::Error::from)?;
        if peer.uid != getuid() {
            return Err(DialError::Foreign);
        }
        stream.set_read_timeout(Some(GREETING_LIMIT))?;
        let greeting = receive(&stream).map_err(|error| match error {
            LineError::Closed => DialError::Nobody,
            error => DialError::Silent(error),
        })?;
        stream.set_read_timeout(None)?;
        Ok(Self { stream, greeting })
    }

    /// Says what is wanted, with descriptors beside it.
    pub fn say(&self, hello: &Hello, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        send(&self.stream, hello, descriptors)
    }

    /// Waits for the next line. Without a limit: an answer may take as long as what it is about.
    pub fn receive<T: DeserializeOwned>(&self) -> Result<T, LineError> {
        receive(&self.stream)
    }

    /// The gateway's process; `None` if it can't be seen from here. It becomes readable when the process has ended.
    pub fn process(&self) -> Option<OwnedFd> {
        let peer = socket_peercred(&self.stream).ok()?;
        pidfd_open(peer.pid, PidfdFlags::empty()).ok()
    }

    /// The connection itself.
    pub fn into_stream(self) -> UnixStream {
        self.stream
    }
}

impl AsFd for GatewayConnection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

fn send(
    mut stream: &UnixStream,
    message: &impl Serialize,
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(Errno::INVAL.into());
    }
    // They travel with the first byte; the rest is text.
    let sent = loop {
        match sendmsg(stream, &[IoSlice::new(&line)], &mut ancillary, SendFlags::NOSIGNAL) {
            Err(Errno::INTR) => {}
            sent => break sent?,
        }
    };
    stream.write_all(&line[sent..])
}

fn receive<T: DeserializeOwned>(stream: &UnixStream) -> Result<T, LineError> {
    let mut line = IncomingLine::default();
    loop {
        if let Some(value) = line.parse() {
            return value;
        }
        match line.take(stream, RecvFlags::empty()) {
            Err(LineError::Failed(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            taken => taken?,
        }
    }
}
