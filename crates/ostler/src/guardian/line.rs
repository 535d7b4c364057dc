//! What the init of a namespace tells its guardian.
//!
//! The init knows the server by its pid inside, and pids mean nothing to the other side of a
//! namespace. Credentials beside a packet are the one thing that the kernel translates, also for a
//! process that has ended meanwhile.

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

/// Above the longest path in a refusal.
const LARGEST_PACKET: usize = 16 << 10;

#[derive(Debug, Serialize, Deserialize)]
enum Packet {
    /// The credentials name the server.
    Started,
    Refused(Refusal),
    Exited(i32),
}

/// What the guardian hears.
#[derive(Debug)]
pub(super) enum Word {
    /// The server runs, with this pid in the guardian's own namespace.
    Started(Pid),
    Refused(Refusal),
    /// The server has ended with this wait status.
    Exited(i32),
    /// The init has ended.
    Silence,
}

/// The init's end.
#[derive(Debug)]
pub(super) struct Speaker(OwnedFd);

/// The guardian's end. Nobody else holds it, so that the line is cut when the guardian dies.
#[derive(Debug)]
pub(super) struct Listener(OwnedFd);

pub(super) fn pair() -> io::Result<(Speaker, Listener)> {
    let (speaker, listener) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_passcred(&listener, true)?;
    Ok((Speaker(speaker), Listener(listener)))
}

impl Speaker {
    /// `server` is a pid of this namespace, and not yet buried.
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

    /// Whether the guardian is dead, whose parent-death signal may have come too early.
    pub(super) fn is_cut(&self) -> bool {
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

impl Listener {
    /// Waits for the next word. It comes, if only as silence: the init is our own child.
    pub(super) fn wait(&self) -> io::Result<Word> {
        Ok(rustix::io::retry_on_intr(|| self.receive(RecvFlags::empty()))?)
    }

    /// The next word that has come, if any.
    pub(super) fn next(&self) -> io::Result<Option<Word>> {
        match self.receive(RecvFlags::DONTWAIT) {
            Ok(word) => Ok(Some(word)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn receive(&self, flags: RecvFlags) -> rustix::io::Result<Word> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut bytes = [0; LARGEST_PACKET];
        let received = recvmsg(&self.0, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, flags)?;
        if received.bytes == 0 {
            return Ok(Word::Silence);
        }
        let named = ancillary.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmCredentials(credentials) => Some(credentials.pid),
            _ => None,
        });
        match (postcard::from_bytes(&bytes[..received.bytes]), named) {
            (Ok(Packet::Started), Some(server)) => Ok(Word::Started(server)),
            (Ok(Packet::Refused(refusal)), _) => Ok(Word::Refused(refusal)),
            (Ok(Packet::Exited(status)), _) => Ok(Word::Exited(status)),
            (Ok(Packet::Started), None) | (Err(_), _) => Err(Errno::BADMSG),
        }
    }
}

impl AsFd for Speaker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_arrive_in_order_and_name_the_process() {
        let (speaker, listener) = pair().unwrap();
        assert!(listener.next().unwrap().is_none());
        speaker.started(rustix::process::getpid()).unwrap();
        speaker.exited(9).unwrap();
        let started = listener.wait().unwrap();
        assert!(matches!(started, Word::Started(pid) if pid == rustix::process::getpid()));
        assert!(matches!(listener.next().unwrap(), Some(Word::Exited(9))));
        drop(speaker);
        assert!(matches!(listener.wait().unwrap(), Word::Silence));
    }

    #[test]
    fn the_line_is_cut_when_the_listener_is_gone() {
        let (speaker, listener) = pair().unwrap();
        assert!(!speaker.is_cut());
        drop(listener);
        assert!(speaker.is_cut());
    }
}
