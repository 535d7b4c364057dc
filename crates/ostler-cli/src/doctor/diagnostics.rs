//! Kernel diagnostics of unix sockets (`sock_diag(7)`), which identify the peer of a socket.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};

/// `SOCK_DIAG_BY_FAMILY`: type of the request and of its response.
const BY_FAMILY: u16 = 20;
const REQUEST: u16 = 1;
/// Flag that requests the peer's inode.
const SHOW_PEER: u32 = 4;
/// Attributes of a response.
const PEER: u16 = 2;
const SHUTDOWN: u16 = 6;
/// Shutdown in both directions: the peer is closed.
const BOTH_WAYS: u8 = 3;
/// Lengths of the netlink header and of the fixed part of a response, in bytes.
const HEADER: usize = 16;
const FIXED: usize = 16;

/// Peer of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PeerSocket {
    Closed,
    /// Inode of the peer.
    Open(u64),
}

/// Netlink socket for diagnostics.
#[derive(Debug)]
pub(super) struct SocketDiagnostics(OwnedFd);

impl SocketDiagnostics {
    pub(super) fn open() -> io::Result<Self> {
        let protocol = Some(netlink::SOCK_DIAG);
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        Ok(Self(socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, protocol)?))
    }

    /// Peer of the unix socket with this inode; `None` if there is no such socket.
    pub(super) fn peer(&self, inode: u64) -> Option<PeerSocket> {
        let request = request(u32::try_from(inode).ok()?);
        send(&self.0, &request, SendFlags::empty()).ok()?;
        let mut answer = [0; 1024];
        // The kernel has queued the response before `send` returns.
        let (length, _) = recv(&self.0, &mut answer, RecvFlags::empty()).ok()?;
        read(answer.get(..length)?)
    }
}

fn request(inode: u32) -> Vec<u8> {
    let family = u8::try_from(AddressFamily::UNIX.as_raw()).unwrap_or_default();
    let mut body = vec![family, 0, 0, 0];
    // All states, this inode, with the peer, any cookie.
    for number in [u32::MAX, inode, SHOW_PEER, u32::MAX, u32::MAX] {
        body.extend(number.to_ne_bytes());
    }
    let length = u32::try_from(HEADER + body.len()).unwrap_or_default();
    let mut message = length.to_ne_bytes().to_vec();
    message.extend(BY_FAMILY.to_ne_bytes());
    message.extend(REQUEST.to_ne_bytes());
    message.extend([0; 8]);
    message.extend(body);
    message
}

fn read(answer: &[u8]) -> Option<PeerSocket> {
    let kind = answer.get(4..6)?;
    if kind != BY_FAMILY.to_ne_bytes() {
        return None;
    }
    let (mut peer, mut is_shut) = (None, false);
    let mut rest = answer.get(HEADER + FIXED..)?;
    while let (Some(length), Some(kind)) = (number(rest.get(..2)), number(rest.get(2..4))) {
        let value = rest.get(4..usize::from(length))?;
        match kind {
            PEER => peer = value.try_into().ok().map(u32::from_ne_bytes),
            SHUTDOWN => is_shut = value.first() == Some(&BOTH_WAYS),
            _ => {}
        }
        let padded = usize::from(length).next_multiple_of(4);
        rest = rest.get(padded..).unwrap_or_default();
    }
    match peer? {
        0 => Some(PeerSocket::Closed),
        _ if is_shut => Some(PeerSocket::Closed),
        peer => Some(PeerSocket::Open(peer.into())),
    }
}

fn number(bytes: Option<&[u8]>) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes?.try_into().ok()?))
}
