//! Client side of the unix socket: connects a command to a gateway. It blocks, and needs no async runtime.

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

use super::hello::{Greeting, Hello, LONGEST_REPLY};
use super::line::{DESCRIPTORS, IncomingLine, LineError};
use super::socket::GatewaySocket;

/// Deadline for the gateway's greeting.
const GREETING_LIMIT: Duration = Duration::from_secs(10);

/// Why a command can't talk to a gateway.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// No gateway listens there, or it is about to exit.
    #[error("no gateway runs there")]
    NoGateway,
    /// The gateway belongs to another user.
    #[error("the gateway there belongs to another user")]
    Foreign,
    /// The greeting is missing, late or malformed.
    #[error("the gateway there does not answer")]
    Silent(#[source] LineError),
    /// A system call on the connection failed.
    #[error("the gateway can't be reached")]
    Failed(#[from] io::Error),
}

/// Connection to a gateway that has sent its greeting.
#[derive(Debug)]
pub struct GatewayConnection {
    stream: UnixStream,
    socket: GatewaySocket,
    /// Greeting of the gateway.
    pub greeting: Greeting,
}

impl GatewayConnection {
    /// Connects to the gateway at this socket and reads its greeting.
    pub fn to(socket: &GatewaySocket) -> Result<Self, DialError> {
        let stream = UnixStream::connect(socket.path()).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => DialError::NoGateway,
            _ => DialError::Failed(error),
        })?;
        let peer = socket_peercred(&stream).map_err(io::Error::from)?;
        if peer.uid != getuid() {
            return Err(DialError::Foreign);
        }
        stream.set_read_timeout(Some(GREETING_LIMIT))?;
        let greeting = receive(&stream).map_err(|error| match error {
            LineError::Closed => DialError::NoGateway,
            error => DialError::Silent(error),
        })?;
        stream.set_read_timeout(None)?;
        Ok(Self { stream, socket: socket.clone(), greeting })
    }

    /// Sends the first line, along with these file descriptors.
    pub fn say(&self, hello: &Hello, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        send(&self.stream, hello, descriptors)
    }

    /// Waits for the next line. It has no deadline: an operator's request may take long to answer.
    pub fn receive<T: DeserializeOwned>(&self) -> Result<T, LineError> {
        receive(&self.stream)
    }

    /// Pidfd of the gateway, which becomes readable when the gateway exits. `None` if it is not visible in this PID
    /// namespace.
    pub fn process(&self) -> Option<OwnedFd> {
        let peer = socket_peercred(&self.stream).ok()?;
        pidfd_open(peer.pid, PidfdFlags::empty()).ok()
    }

    /// Socket of the gateway, for further connections to it.
    pub fn socket(&self) -> &GatewaySocket {
        &self.socket
    }

    /// Returns the underlying connection.
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
    // The descriptors travel with the first byte, so the rest can be written without them.
    let sent = loop {
        match sendmsg(stream, &[IoSlice::new(&line)], &mut ancillary, SendFlags::NOSIGNAL) {
            Err(Errno::INTR) => {}
            sent => break sent?,
        }
    };
    stream.write_all(&line[sent..])
}

fn receive<T: DeserializeOwned>(stream: &UnixStream) -> Result<T, LineError> {
    let mut line = IncomingLine::up_to(LONGEST_REPLY);
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
