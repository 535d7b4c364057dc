//! Creates the PID, mount and user namespaces of a `strict` server, and mounts what the server sees in them.
#![expect(
    unsafe_code,
    reason = "std can neither restore a handler nor close what it has not opened"
)]

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_bind, mount_change};
use rustix::process::{Gid, Pid, Uid, getgid, getuid};

use super::fork::{self, ChildCgroup};
use crate::cgroup::Leaf;

/// Why the namespaces could not be set up.
#[derive(Debug, thiserror::Error)]
pub(super) enum NamespaceError {
    #[error(
        "this user cannot create a PID namespace, not even through a user namespace; is one of the \
         sysctls user.max_user_namespaces and kernel.unprivileged_userns_clone 0, or does a \
         security module or a container forbid it?"
    )]
    Forbidden(#[source] io::Error),
    #[error("the kernel refuses to create a PID namespace")]
    Unavailable(#[source] io::Error),
    #[error("the user could not be mapped into the user namespace")]
    Unmapped(#[source] io::Error),
    #[error("cannot make the mount namespace a slave of the host's")]
    Mounts(#[source] io::Error),
    #[error("a private /proc can't be mounted")]
    Proc(#[source] io::Error),
    #[error("{} can't be hidden from the server", .0.display())]
    Hidden(PathBuf, #[source] io::Error),
    #[error("the server's own socket can't be mounted over {}", .0.display())]
    Engine(PathBuf, #[source] io::Error),
}

/// Which of the two processes has returned from [`fork()`].
pub(super) enum NamespaceFork {
    Guardian { init: Pid },
    Init(UserNamespace, ChildCgroup),
}

/// The user namespace that owns a new PID namespace.
pub(super) enum UserNamespace {
    /// The guardian's, which has the privileges to create the other namespaces.
    Same,
    /// A new one, in which the init has those privileges. No user or group id is mapped in it yet; these are the ids
    /// outside.
    Own { uid: Uid, gid: Gid },
}

/// Forks this process into new PID and mount namespaces, and into the leaf.
pub(super) fn fork(leaf: Option<&Leaf>) -> Result<NamespaceFork, NamespaceError> {
    // Read before the fork: inside a new user namespace both ids read as the overflow id.
    let own = UserNamespace::Own { uid: getuid(), gid: getgid() };
    let namespaces = libc::CLONE_NEWPID | libc::CLONE_NEWNS;
    let forked = match fork::fork(namespaces, leaf) {
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
            fork::fork(namespaces | libc::CLONE_NEWUSER, leaf).map(|forked| (forked, own))
        }
        result => result.map(|forked| (forked, UserNamespace::Same)),
    };
    match forked {
        Ok((fork::ForkResult::Child(cgroup), user_namespace)) => {
            Ok(NamespaceFork::Init(user_namespace, cgroup))
        }
        Ok((fork::ForkResult::Parent { child }, _)) => Ok(NamespaceFork::Guardian { init: child }),
        Err(error) => match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES | libc::ENOSPC | libc::EUSERS) => {
                Err(NamespaceError::Forbidden(error))
            }
            _ => Err(NamespaceError::Unavailable(error)),
        },
    }
}

/// Maps the user and group id to themselves, so that the server sees the same ids as outside.
pub(super) fn map_ids(user_namespace: &UserNamespace) -> Result<(), NamespaceError> {
    let UserNamespace::Own { uid, gid } = user_namespace else { return Ok(()) };
    let (uid, gid) = (uid.as_raw(), gid.as_raw());
    let files = [
        // The kernel requires it: a process could otherwise drop a group that denies it access to files.
        ("setgroups", "deny".to_owned()),
        ("uid_map", format!("{uid} {uid} 1")),
        ("gid_map", format!("{gid} {gid} 1")),
    ];
    for (name, content) in files {
        fs::write(format!("/proc/self/{name}"), content).map_err(NamespaceError::Unmapped)?;
    }
    Ok(())
}

/// Mounts a /proc that shows this namespace. Mounts propagate from the machine into this namespace, never back.
pub(super) fn mount_proc() -> Result<(), NamespaceError> {
    let follow = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    mount_change("/", follow).map_err(|errno| NamespaceError::Mounts(errno.into()))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("proc", "/proc", "proc", flags, None).map_err(|errno| NamespaceError::Proc(errno.into()))
}

/// Mounts the server's Door over the engine's socket, so that a command that names the engine's socket, or lost its
/// environment, reaches the Door as well. Does nothing if the engine's socket does not exist or is out of this user's
/// reach.
pub(super) fn cover(engine: &Path, door: &Path) -> Result<(), NamespaceError> {
    let Ok(engine) = fs::canonicalize(engine) else { return Ok(()) };
    mount_bind(door, &engine).map_err(|errno| NamespaceError::Engine(engine, errno.into()))
}

/// Removes the guardian's SIGCHLD handler, which would write into the guardian's own signal pipe.
pub(super) fn reset_sigchld() {
    // SAFETY: only a disposition is set.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
}

/// Closes every descriptor except `kept` and the standard streams.
pub(super) fn close_all_but(kept: &impl AsFd) {
    let kept = kept.as_fd().as_raw_fd().cast_unsigned();
    let first = libc::STDERR_FILENO.cast_unsigned() + 1;
    // SAFETY: the init never returns to a frame that owns one of these descriptors. Before Linux 5.9, which lacks the
    // call, they stay open and unused.
    unsafe {
        libc::syscall(libc::SYS_close_range, first, kept - 1, 0);
        libc::syscall(libc::SYS_close_range, kept + 1, libc::c_uint::MAX, 0);
    }
}
