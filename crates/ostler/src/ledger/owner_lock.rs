//! The owner's lock, held as long as the owner lives.
//!
//! The kernel releases an fcntl lock when its process dies, even if a child has inherited the
//! descriptor. It also releases the lock when the process closes *any* descriptor of the file. So the
//! lock file serves no other purpose, and an owner never opens its own a second time.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::io::Errno;

/// A held lock.
#[derive(Debug)]
pub(crate) struct OwnerLock {
    _file: File,
}

/// What to do while another process holds the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    GiveUp,
    /// Wait for it. For a lock whose owner is known to be dead, so that only another sweep can hold it.
    Wait,
}

impl OwnerLock {
    /// Creates and locks the file. Waits for a sweep that has locked it first, taking the directory for
    /// a dead owner's; that sweep removes it.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().write(true).create_new(true).open(path)?;
        lock(&file, FlockOperation::LockExclusive)?;
        Ok(Self { _file: file })
    }

    /// Takes over the lock of a dead owner. `None` if another process holds it.
    pub(crate) fn take_over(path: &Path, patience: Patience) -> io::Result<Option<Self>> {
        let file = OpenOptions::new().write(true).open(path)?;
        let operation = match patience {
            Patience::GiveUp => FlockOperation::NonBlockingLockExclusive,
            Patience::Wait => FlockOperation::LockExclusive,
        };
        match lock(&file, operation) {
            Ok(()) => Ok(Some(Self { _file: file })),
            Err(Errno::AGAIN | Errno::ACCESS) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

fn lock(file: &File, operation: FlockOperation) -> rustix::io::Result<()> {
    loop {
        match fcntl_lock(file, operation) {
            Err(Errno::INTR) => {}
            done => return done,
        }
    }
}
