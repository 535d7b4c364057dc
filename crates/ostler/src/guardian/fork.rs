//! The calls that Rust has no safe form for: forks of a process that has one thread.
#![expect(unsafe_code, reason = "std can neither fork without exec nor into a cgroup or namespace")]

use std::io;
use std::os::fd::{AsRawFd, RawFd};

use rustix::process::Pid;

use crate::cgroup::Leaf;
use crate::signals::Ignored;

/// libc has it in a type that is too narrow for it.
const CLONE_INTO_CGROUP: u64 = 1 << 33;

/// Which of the two processes has returned from [`fork`].
pub(super) enum Side {
    Parent { child: Pid },
    Child(Birth),
}

/// Where a child finds itself.
#[derive(Clone, Copy)]
pub(super) enum Birth {
    InLeaf,
    /// In its parent's cgroup: there is no leaf, or the kernel can't fork into one.
    Outside,
}

/// Forks this process, which must have one thread, into the leaf and into new namespaces.
///
/// To be born in the leaf is not only safer than to enter it. Whoever moves between cgroups waits
/// until no other process of the machine is forking, which takes some 20 ms if nobody has moved
/// lately; a birth does not.
pub(super) fn fork(namespaces: libc::c_int, leaf: Option<&Leaf>) -> io::Result<Side> {
    if let Some(leaf) = leaf {
        let directory = leaf.directory()?;
        let flags = u64::from(namespaces.cast_unsigned()) | CLONE_INTO_CGROUP;
        match clone(flags, Some(directory.as_raw_fd())) {
            // Before Linux 5.7, or where a filter of system calls hides the call.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EINVAL)) => {}
            pid => return pid.map(|pid| side(pid, Birth::InLeaf)),
        }
    }
    match clone(u64::from(namespaces.cast_unsigned()), None) {
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => old_clone(namespaces),
        pid => pid,
    }
    .map(|pid| side(pid, Birth::Outside))
}

fn side(pid: Option<Pid>, birth: Birth) -> Side {
    pid.map_or(Side::Child(birth), |child| Side::Parent { child })
}

/// `None` in the child.
fn clone(flags: u64, cgroup: Option<RawFd>) -> io::Result<Option<Pid>> {
    let arguments = libc::clone_args {
        flags,
        exit_signal: u64::from(libc::SIGCHLD.cast_unsigned()),
        cgroup: cgroup.map_or(0, |fd| u64::from(fd.cast_unsigned())),
        pidfd: 0,
        child_tid: 0,
        parent_tid: 0,
        stack: 0,
        stack_size: 0,
        tls: 0,
        set_tid: 0,
        set_tid_size: 0,
    };
    // SAFETY: without CLONE_VM this is fork, and no other thread of the guardian could hold a lock
    // in the child's copy of the memory. The arguments hold no pointers.
    let pid =
        unsafe { libc::syscall(libc::SYS_clone3, &raw const arguments, size_of_val(&arguments)) };
    returned(pid)
}

/// For containers whose filter of system calls does not know clone3.
fn old_clone(namespaces: libc::c_int) -> io::Result<Option<Pid>> {
    let flags = libc::c_long::from(namespaces | libc::SIGCHLD);
    // SAFETY: as above; no stack and no pointers are passed.
    returned(unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) })
}

fn returned(pid: libc::c_long) -> io::Result<Option<Pid>> {
    match i32::try_from(pid) {
        Ok(-1) => Err(io::Error::last_os_error()),
        Ok(pid) => Ok(Pid::from_raw(pid)),
        Err(error) => Err(io::Error::other(error)),
    }
}

/// Ignores these signals again, which is what an exec keeps.
pub(super) fn ignore(signals: Ignored) {
    for signal in signals.iter() {
        // SAFETY: only a disposition is set.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// Closes descriptors that were open before this process opened anything.
pub(super) fn close(inherited: Vec<RawFd>) {
    for fd in inherited {
        // SAFETY: nothing in this process has opened it, so that nothing in it owns it.
        unsafe { libc::close(fd) };
    }
}

/// Ends this process, whose frames are copies of its parent's and must not be unwound.
pub(super) fn leave() -> ! {
    // SAFETY: _exit has no preconditions.
    unsafe { libc::_exit(0) }
}
