//! The four calls that have no safe wrapper.
#![expect(unsafe_code, reason = "fork, _exit, alarm and kill(-1) have no safe wrapper")]

use std::io;

/// Which of the two processes returned from [`fork`].
pub(crate) enum Side {
    Parent,
    Child,
}

/// Forks. The stub is single-threaded, so the child may go on as the parent would.
pub(crate) fn fork() -> io::Result<Side> {
    // SAFETY: no other thread exists that could hold a lock in the child's copy of the memory.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Side::Child),
        _ => Ok(Side::Parent),
    }
}

/// Ends this process without flushing or running handlers that belong to the other side of a fork.
pub(crate) fn exit_now() -> ! {
    // SAFETY: _exit has no preconditions.
    unsafe { libc::_exit(0) }
}

/// Has this process killed by SIGALRM after that many seconds. Not inherited by a forked child.
pub(crate) fn alarm(seconds: u32) {
    // SAFETY: alarm has no preconditions.
    unsafe { libc::alarm(seconds) };
}

/// `kill(-1, SIGKILL)`. The caller has checked that this cannot leave a throw-away pid namespace.
pub(crate) fn kill_everything() {
    // SAFETY: kill touches no memory of this process.
    unsafe { libc::kill(-1, libc::SIGKILL) };
}
