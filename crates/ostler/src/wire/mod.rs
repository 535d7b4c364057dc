//! Control sockets between the processes of one instance: [owner and guardian](guardian), [guardian and
//! porter](porter).
//!
//! A message is a frame on a unix stream socket: a 32-bit little-endian length and a [`postcard`] body. Descriptors
//! travel as `SCM_RIGHTS` beside the first byte of a frame. Both ends are the same binary, so the format has no version.

pub(crate) mod guardian;
pub(crate) mod porter;

use std::fs::OpenOptions;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Most descriptors that one message carries: stdin, stdout and stderr.
const DESCRIPTORS: usize = 3;
/// Bytes. Larger than what the kernel accepts for arguments and environment together.
const LARGEST_FRAME: usize = 16 << 20;

/// Result of a receive that does not wait.
#[derive(Debug)]
pub(crate) enum Received<M> {
    Message(M),
    NothingYet,
    /// The peer closed its end.
    Closed,
}

/// One end of a control socket.
#[derive(Debug)]
pub(crate) struct Conn {
    socket: OwnedFd,
    inbox: Vec<u8>,
    descriptors: Vec<OwnedFd>,
}

impl Conn {
    /// A connected pair, our end and the peer's, both close-on-exec.
    pub(crate) fn pair() -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        Ok((Self::new(ours), theirs))
    }

    /// Takes the socket that this process was started with as descriptor 0, and replaces descriptor 0 with /dev/null
    /// so that no child inherits the socket.
    pub(crate) fn inherited() -> io::Result<Self> {
        let socket = fcntl_dupfd_cloexec(io::stdin(), 3)?;
        let null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
        rustix::stdio::dup2_stdin(&null)?;
        Ok(Self::new(socket))
    }

    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self { socket, inbox: Vec::new(), descriptors: Vec::new() }
    }

    /// Sends one message with descriptors, and waits until all of it is in the socket.
    pub(crate) fn send(&self, message: &impl Serialize, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut frame = vec![0; 4];
        frame = postcard::to_extend(message, frame).map_err(io::Error::other)?;
        let length = u32::try_from(frame.len() - 4).map_err(io::Error::other)?;
        frame[..4].copy_from_slice(&length.to_le_bytes());

        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
            return Err(Errno::INVAL.into());
        }
        let mut rest = frame.as_slice();
        while !rest.is_empty() {
            let part = [IoSlice::new(rest)];
            match sendmsg(&self.socket, &part, &mut ancillary, SendFlags::NOSIGNAL) {
                Ok(sent) => rest = &rest[sent..],
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
            ancillary.clear();
        }
        Ok(())
    }

    /// Returns the next complete message; never waits.
    pub(crate) fn receive<M: DeserializeOwned>(&mut self) -> io::Result<Received<M>> {
        loop {
            if let Some(message) = self.unpack()? {
                return Ok(Received::Message(message));
            }
            match self.fill() {
                // CONNRESET: the peer died with unread messages in its socket.
                Ok(0) | Err(Errno::CONNRESET) => return Ok(Received::Closed),
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(Received::NothingYet),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Takes the descriptors that arrived with the messages so far.
    pub(crate) fn take_descriptors(&mut self) -> Vec<OwnedFd> {
        std::mem::take(&mut self.descriptors)
    }

    fn unpack<M: DeserializeOwned>(&mut self) -> io::Result<Option<M>> {
        let Some((header, body)) = self.inbox.split_first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_le_bytes(*header) as usize;
        if length > LARGEST_FRAME {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let Some(body) = body.get(..length) else { return Ok(None) };
        let message = postcard::from_bytes(body).map_err(io::Error::other)?;
        self.inbox.drain(..4 + length);
        Ok(Some(message))
    }

    fn fill(&mut self) -> rustix::io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut bytes = [0; 16 << 10];
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let received =
            recvmsg(&self.socket, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, flags)?;
        self.inbox.extend_from_slice(&bytes[..received.bytes]);
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = message {
                self.descriptors.extend(fds);
            }
        }
        Ok(received.bytes)
    }
}

impl AsFd for Conn {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::guardian::GuardianOrder;
    use super::*;
    use crate::ladder::Step;

    fn connected() -> (Conn, Conn) {
        let (one, other) = Conn::pair().unwrap();
        (one, Conn::new(other))
    }

    #[test]
    fn a_message_arrives_with_its_descriptors() {
        let (sender, mut receiver) = connected();
        let file = std::fs::File::open("/dev/null").unwrap();
        sender.send(&GuardianOrder::Hurry, &[file.as_fd(); DESCRIPTORS]).unwrap();
        sender.send(&GuardianOrder::Stop(Step::Asking), &[]).unwrap();
        assert!(matches!(receiver.receive().unwrap(), Received::Message(GuardianOrder::Hurry)));
        assert_eq!(receiver.take_descriptors().len(), DESCRIPTORS);
        let next = receiver.receive().unwrap();
        assert!(matches!(next, Received::Message(GuardianOrder::Stop(Step::Asking))));
        assert!(matches!(receiver.receive::<GuardianOrder>().unwrap(), Received::NothingYet));
        drop(sender);
        assert!(matches!(receiver.receive::<GuardianOrder>().unwrap(), Received::Closed));
    }

    #[test]
    fn a_message_larger_than_the_socket_arrives_whole() {
        let (sender, mut receiver) = connected();
        let long = "x".repeat(3 << 20);
        std::thread::scope(|scope| {
            scope.spawn(|| sender.send(&long, &[]).unwrap());
            let arrived = loop {
                match receiver.receive::<String>().unwrap() {
                    Received::Message(text) => break text,
                    Received::NothingYet => std::thread::yield_now(),
                    Received::Closed => panic!("closed before the message was whole"),
                }
            };
            assert_eq!(arrived, long);
        });
    }

    #[test]
    fn a_frame_without_end_is_refused() {
        let (sender, mut receiver) = connected();
        rustix::io::write(&sender, &u32::MAX.to_le_bytes()).unwrap();
        assert!(receiver.receive::<GuardianOrder>().is_err());
    }
}
