//! Finds the processes at the other ends of stdin and stdout.
//!
//! Only the kernel is queried; no process is stopped or traced. A pipe is opened again through `/proc` and polled,
//! without reading or writing: it reports a hangup if no process at all holds the other end. Node and Bun give their
//! children sockets instead, which can't be opened again; for these the kernel's socket diagnostics identify the peer.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};

use super::diagnostics::{PeerSocket, SocketDiagnostics};
use super::table::{Channel, Stream};

/// Open pipes and sockets of all processes that this user may inspect, by inode.
#[derive(Debug, Default)]
pub(super) struct Descriptors {
    pipes: BTreeMap<u64, Vec<(i32, u32)>>,
    sockets: BTreeMap<u64, BTreeSet<i32>>,
    of_process: BTreeMap<i32, BTreeSet<u64>>,
}

/// A standard stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standard {
    Input,
    Output,
}

impl Descriptors {
    pub(super) fn read(pids: impl Iterator<Item = i32>) -> Self {
        let mut all = Self::default();
        for pid in pids {
            let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
            for entry in entries {
                let number = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
                let target = fs::read_link(entry.path()).ok();
                if let (Some(number), Some(target)) = (number, target) {
                    all.add(pid, number, &target);
                }
            }
        }
        all
    }

    fn add(&mut self, pid: i32, number: u32, target: &Path) {
        let target = target.to_string_lossy();
        if let Some(inode) = inode_in(&target, "pipe:[") {
            self.pipes.entry(inode).or_default().push((pid, number));
        } else if let Some(inode) = inode_in(&target, "socket:[") {
            self.sockets.entry(inode).or_default().insert(pid);
            self.of_process.entry(pid).or_default().insert(inode);
        }
    }

    /// Inodes of a process's sockets.
    pub(super) fn sockets_of(&self, pid: i32) -> impl Iterator<Item = u64> {
        self.of_process.get(&pid).into_iter().flatten().copied()
    }

    /// State of a standard stream of a process.
    pub(super) fn stream(
        &self,
        pid: i32,
        which: Standard,
        diagnostics: Option<&SocketDiagnostics>,
    ) -> Stream {
        let path = format!("/proc/{pid}/fd/{}", which.number());
        let Ok(target) = fs::read_link(&path) else { return Stream::Other };
        let target = target.to_string_lossy();
        if let Some(inode) = inode_in(&target, "pipe:[") {
            return self.pipe(inode, &path, which);
        }
        if let Some(inode) = inode_in(&target, "socket:[") {
            let peer = diagnostics.and_then(|diagnostics| diagnostics.peer(inode));
            return match peer {
                Some(PeerSocket::Closed) => Stream::HungUp(Channel::Socket),
                Some(PeerSocket::Open(peer)) => {
                    let holders = self.sockets.get(&peer).cloned().unwrap_or_default();
                    Stream::Held(Channel::Socket, holders)
                }
                None => Stream::Other,
            };
        }
        let is_terminal = target.starts_with("/dev/pts/") || target.starts_with("/dev/tty");
        if is_terminal { Stream::Terminal } else { Stream::Other }
    }

    fn pipe(&self, inode: u64, path: &str, which: Standard) -> Stream {
        match hangs_up(path, which) {
            Some(true) => Stream::HungUp(Channel::Pipe),
            Some(false) => {
                let holders = self.pipes.get(&inode).into_iter().flatten();
                let opposite = holders.filter(|(pid, fd)| which.is_opposite(*pid, *fd));
                Stream::Held(Channel::Pipe, opposite.map(|(pid, _)| *pid).collect())
            }
            None => Stream::Other,
        }
    }
}

impl Standard {
    fn number(self) -> u32 {
        match self {
            Self::Input => 0,
            Self::Output => 1,
        }
    }

    /// Whether a descriptor is open for the opposite direction.
    fn is_opposite(self, pid: i32, fd: u32) -> bool {
        const ACCESS: u32 = 0o3;
        let info = fs::read_to_string(format!("/proc/{pid}/fdinfo/{fd}")).unwrap_or_default();
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
        let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
        flags.is_some_and(|flags| match self {
            Self::Input => flags & ACCESS != 0,
            Self::Output => flags & ACCESS != 1,
        })
    }
}

/// Whether no process holds the other end of a pipe; `None` if the pipe can't be opened.
fn hangs_up(path: &str, which: Standard) -> Option<bool> {
    let (access, events) = match which {
        Standard::Input => (OFlags::RDONLY, PollFlags::IN),
        Standard::Output => (OFlags::WRONLY, PollFlags::OUT),
    };
    let flags = access | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let end = open(path, flags, Mode::empty()).ok()?;
    let mut polled = [PollFd::new(&end, events)];
    poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).ok()?;
    Some(polled[0].revents().intersects(PollFlags::HUP | PollFlags::ERR))
}

fn inode_in(target: &str, prefix: &str) -> Option<u64> {
    target.strip_prefix(prefix)?.strip_suffix(']')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    fn own_path(fd: &impl AsRawFd) -> String {
        format!("/proc/self/fd/{}", fd.as_raw_fd())
    }

    #[test]
    fn a_pipe_hangs_up_when_its_other_end_is_closed() {
        let (reader, writer) = std::io::pipe().unwrap();
        let path = own_path(&reader);
        assert_eq!(hangs_up(&path, Standard::Input), Some(false));
        drop(writer);
        assert_eq!(hangs_up(&path, Standard::Input), Some(true));

        let (reader, writer) = std::io::pipe().unwrap();
        let path = own_path(&writer);
        assert_eq!(hangs_up(&path, Standard::Output), Some(false));
        drop(reader);
        assert_eq!(hangs_up(&path, Standard::Output), Some(true));
    }

    #[test]
    fn the_kernel_names_the_peer_of_a_socket() {
        let (one, other) = UnixStream::pair().unwrap();
        let inode = |socket: &UnixStream| {
            let target = fs::read_link(own_path(socket)).unwrap();
            inode_in(&target.to_string_lossy(), "socket:[").unwrap()
        };
        let diagnostics = SocketDiagnostics::open().unwrap();
        assert_eq!(diagnostics.peer(inode(&one)), Some(PeerSocket::Open(inode(&other))));
        let own = inode(&one);
        drop(other);
        assert_eq!(diagnostics.peer(own), Some(PeerSocket::Closed));
        drop(one);
        assert_eq!(diagnostics.peer(own), None);
    }
}
