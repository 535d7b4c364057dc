//! `clone3` into a cgroup and new namespaces, and the other system calls that Rust offers no safe form for.
//!
//! All of them assume a process with one thread.
#![expect(unsafe_code, reason = "std can neither fork without exec nor into a cgroup or namespace")]

use std::io;
use std::os::fd::{AsRawFd, RawFd};

use rustix::process::Pid;

use crate::cgroup::Leaf;
use crate::signals::Ignored;

/// libc declares this flag with a type that is too narrow for it.
const CLONE_INTO_CGROUP: u64 = 1 << 33;

/// Which of the two processes has returned from [`fork`].
pub(super) enum ForkResult {
    Parent { child: Pid },
    Child(ChildCgroup),
}

/// The cgroup in which a child starts.
#[derive(Clone, Copy)]
pub(super) enum ChildCgroup {
    InLeaf,
    /// The parent's cgroup: there is no leaf, or the kernel can't fork into one.
    Outside,
}

/// Forks this process, which must have one thread, into the leaf and into new namespaces.
///
/// Forking into the leaf is safer than entering it after the fork, and faster: the kernel lets a process change its
/// cgroup only when no process of the machine is forking, which takes about 20 ms after a while without such a move.
pub(super) fn fork(namespaces: libc::c_int, leaf: Option<&Leaf>) -> io::Result<ForkResult> {
    if let Some(leaf) = leaf {
        let directory = leaf.directory()?;
        let flags = u64::from(namespaces.cast_unsigned()) | CLONE_INTO_CGROUP;
        match clone(flags, Some(directory.as_raw_fd())) {
            // Linux before 5.7, or a seccomp filter that hides clone3.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EINVAL)) => {}
            pid => return pid.map(|pid| result_of(pid, ChildCgroup::InLeaf)),
        }
    }
    match clone(u64::from(namespaces.cast_unsigned()), None) {
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => old_clone(namespaces),
        pid => pid,
    }
    .map(|pid| result_of(pid, ChildCgroup::Outside))
}

fn result_of(pid: Option<Pid>, cgroup: ChildCgroup) -> ForkResult {
    pid.map_or(ForkResult::Child(cgroup), |child| ForkResult::Parent { child })
}

/// Calls clone3. Returns `None` in the child.
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

/// Calls clone, for containers whose seccomp filter does not know clone3.
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

/// Sets these signals to ignored, a disposition that survives an exec.
pub(super) fn ignore(signals: Ignored) {
    for signal in signals.iter() {
        // SAFETY: only a disposition is set.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// Closes descriptors that this process inherited.
pub(super) fn close(inherited: Vec<RawFd>) {
    for fd in inherited {
        // SAFETY: this process inherited the descriptor, so no value in it owns the descriptor.
        unsafe { libc::close(fd) };
    }
}

/// Exits a forked child without unwinding: its stack frames are copies of its parent's.
pub(super) fn leave() -> ! {
    // SAFETY: _exit has no preconditions.
    unsafe { libc::_exit(0) }
}
