//! The channel from the init of a PID namespace to its guardian.
//!
//! It is a pair of packet sockets. The init knows the server only by its pid inside the namespace, which means
//! nothing outside. So the init names the server in the `SCM_CREDENTIALS` of the packet: the kernel translates that pid
//! into the guardian's namespace, also if the process has exited meanwhile.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, UCred, recvmsg, sendmsg, socketpair,
    sockopt,
};
use rustix::process::{Pid, getgid, getuid};
use serde::{Deserialize, Serialize};

use crate::outcome::Refusal;

/// Bytes. Larger than the longest path in a refusal.
const LARGEST_PACKET: usize = 16 << 10;

#[derive(Debug, Serialize, Deserialize)]
enum Packet {
    /// The pid of the server is in the packet's credentials.
    Started,
    Refused(Refusal),
    Exited(i32),
}

/// What the guardian receives.
#[derive(Debug)]
pub(super) enum InitMessage {
    /// The server runs, with this pid in the guardian's own namespace.
    Started(Pid),
    Refused(Refusal),
    /// The server's wait status.
    Exited(i32),
    /// The init has exited.
    Closed,
}

/// The init's end of the channel.
#[derive(Debug)]
pub(super) struct InitSender(OwnedFd);

/// The guardian's end of the channel. No other process holds it, so the channel closes when the guardian dies.
#[derive(Debug)]
pub(super) struct InitReceiver(OwnedFd);

pub(super) fn channel() -> io::Result<(InitSender, InitReceiver)> {
    let (sender, receiver) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_passcred(&receiver, true)?;
    Ok((InitSender(sender), InitReceiver(receiver)))
}

impl InitSender {
    /// Reports that the server runs. `server` is its pid in this namespace; it must not be reaped yet.
    pub(super) fn started(&self, server: Pid) -> io::Result<()> {
        let credentials = UCred { pid: server, uid: getuid(), gid: getgid() };
        self.send(&Packet::Started, Some(credentials))
    }

    pub(super) fn refused(&self, refusal: Refusal) -> io::Result<()> {
        self.send(&Packet::Refused(refusal), None)
    }

    pub(super) fn exited(&self, status: i32) -> io::Result<()> {
        self.send(&Packet::Exited(status), None)
    }

    /// Whether the guardian is dead. Needed because the parent-death signal does not fire if the guardian died before it was set.
    pub(super) fn is_closed(&self) -> bool {
        let mut fds = [PollFd::new(&self.0, PollFlags::empty())];
        !matches!(poll(&mut fds, Some(&Timespec::default())), Ok(0))
    }

    fn send(&self, packet: &Packet, credentials: Option<UCred>) -> io::Result<()> {
        let packet = postcard::to_stdvec(packet).map_err(io::Error::other)?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if let Some(credentials) = credentials {
            ancillary.push(SendAncillaryMessage::ScmCredentials(credentials));
        }
        let flags = SendFlags::NOSIGNAL;
        rustix::io::retry_on_intr(|| {
            sendmsg(&self.0, &[IoSlice::new(&packet)], &mut ancillary, flags)
        })?;
        Ok(())
    }
}

impl InitReceiver {
    /// Waits for the next message. The wait is bounded by the life of the init, whose exit closes the channel.
    pub(super) fn wait(&self) -> io::Result<InitMessage> {
        Ok(rustix::io::retry_on_intr(|| self.receive(RecvFlags::empty()))?)
    }

    /// Returns the next message if one has arrived; never waits.
    pub(super) fn next(&self) -> io::Result<Option<InitMessage>> {
        match self.receive(RecvFlags::DONTWAIT) {
            Ok(word) => Ok(Some(word)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn receive(&self, flags: RecvFlags) -> rustix::io::Result<InitMessage> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut bytes = [0; LARGEST_PACKET];
        let received = recvmsg(&self.0, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, flags)?;
        if received.bytes == 0 {
            return Ok(InitMessage::Closed);
        }
        let named = ancillary.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmCredentials(credentials) => Some(credentials.pid),
            _ => None,
        });
        match (postcard::from_bytes(&bytes[..received.bytes]), named) {
            (Ok(Packet::Started), Some(server)) => Ok(InitMessage::Started(server)),
            (Ok(Packet::Refused(refusal)), _) => Ok(InitMessage::Refused(refusal)),
            (Ok(Packet::Exited(status)), _) => Ok(InitMessage::Exited(status)),
            (Ok(Packet::Started), None) | (Err(_), _) => Err(Errno::BADMSG),
        }
    }
}

impl AsFd for InitSender {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsFd for InitReceiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_arrive_in_order_and_name_the_process() {
        let (sender, receiver) = channel().unwrap();
        assert!(receiver.next().unwrap().is_none());
        sender.started(rustix::process::getpid()).unwrap();
        sender.exited(9).unwrap();
        let started = receiver.wait().unwrap();
        assert!(matches!(started, InitMessage::Started(pid) if pid == rustix::process::getpid()));
        assert!(matches!(receiver.next().unwrap(), Some(InitMessage::Exited(9))));
        drop(sender);
        assert!(matches!(receiver.wait().unwrap(), InitMessage::Closed));
    }

    #[test]
    fn the_line_is_cut_when_the_listener_is_gone() {
        let (sender, receiver) = channel().unwrap();
        assert!(!sender.is_closed());
        drop(receiver);
        assert!(sender.is_closed());
    }
}
