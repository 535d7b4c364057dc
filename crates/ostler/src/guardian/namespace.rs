//! A PID namespace: its first process, and what that sees of the machine.
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

use super::fork::{self, Birth};
use crate::cgroup::Leaf;

/// Why there is no namespace.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoNamespace {
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
    #[error("{} can't be covered by the server's own socket", .0.display())]
    Engine(PathBuf, #[source] io::Error),
}

/// Which of the two processes has returned from [`fork`].
pub(super) enum Side {
    Guardian { init: Pid },
    Init(Users, Birth),
}

/// The user namespace of a new PID namespace.
pub(super) enum Users {
    /// The guardian's: it has the rights to make the other ones.
    Same,
    /// One of its own, in which the first process has those rights, and nobody has a name yet.
    Own { uid: Uid, gid: Gid },
}

/// Forks this process into PID and mount namespaces of their own, and into the leaf.
pub(super) fn fork(leaf: Option<&Leaf>) -> Result<Side, NoNamespace> {
    // In a new user namespace nobody has a name, so that it must be known before.
    let own = Users::Own { uid: getuid(), gid: getgid() };
    let namespaces = libc::CLONE_NEWPID | libc::CLONE_NEWNS;
    let forked = match fork::fork(namespaces, leaf) {
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
            fork::fork(namespaces | libc::CLONE_NEWUSER, leaf).map(|side| (side, own))
        }
        side => side.map(|side| (side, Users::Same)),
    };
    match forked {
        Ok((fork::Side::Child(birth), users)) => Ok(Side::Init(users, birth)),
        Ok((fork::Side::Parent { child }, _)) => Ok(Side::Guardian { init: child }),
        Err(error) => match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES | libc::ENOSPC | libc::EUSERS) => {
                Err(NoNamespace::Forbidden(error))
            }
            _ => Err(NoNamespace::Unavailable(error)),
        },
    }
}

/// Each user keeps the number that it has outside: the server must not see another one.
pub(super) fn keep_names(users: &Users) -> Result<(), NoNamespace> {
    let Users::Own { uid, gid } = users else { return Ok(()) };
    let (uid, gid) = (uid.as_raw(), gid.as_raw());
    let files = [
        // Groups could be dropped otherwise, also those that forbid something.
        ("setgroups", "deny".to_owned()),
        ("uid_map", format!("{uid} {uid} 1")),
        ("gid_map", format!("{gid} {gid} 1")),
    ];
    for (name, content) in files {
        fs::write(format!("/proc/self/{name}"), content).map_err(NoNamespace::Unmapped)?;
    }
    Ok(())
}

/// A /proc that shows this namespace. What is mounted on the machine later still appears here, and
/// nothing that is mounted here appears there.
pub(super) fn mount_proc() -> Result<(), NoNamespace> {
    let follow = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    mount_change("/", follow).map_err(|errno| NoNamespace::Mounts(errno.into()))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("proc", "/proc", "proc", flags, None).map_err(|errno| NoNamespace::Proc(errno.into()))
}

/// Puts the server's own way to its engine in the place of the engine's socket, so that a command that
/// names that, or has lost its environment, goes there as well. One that is not there, or that this
/// user can't reach, needs no cover.
pub(super) fn cover(engine: &Path, door: &Path) -> Result<(), NoNamespace> {
    let Ok(engine) = fs::canonicalize(engine) else { return Ok(()) };
    mount_bind(door, &engine).map_err(|errno| NoNamespace::Engine(engine, errno.into()))
}

/// Takes back the guardian's handler, which would tell of the init's children to the guardian.
pub(super) fn forget_child_notice() {
    // SAFETY: only a disposition is set.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
}

/// Closes every descriptor but `kept` and the standard streams.
pub(super) fn close_all_but(kept: &impl AsFd) {
    let kept = kept.as_fd().as_raw_fd().cast_unsigned();
    let first = libc::STDERR_FILENO.cast_unsigned() + 1;
    // SAFETY: the init never returns to a frame that owns one of these descriptors. Without the
    // call (before Linux 5.9) they stay open, and the init uses none of them.
    unsafe {
        libc::syscall(libc::SYS_close_range, first, kept - 1, 0);
        libc::syscall(libc::SYS_close_range, kept + 1, libc::c_uint::MAX, 0);
    }
}
