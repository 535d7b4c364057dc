//! The lock that shows that an owner lives.
//!
//! An fcntl lock falls with its process, also if a child has inherited the descriptor. It falls as
//! well when its process closes *any* descriptor of the file, so that the file is used for nothing
//! else and an owner never opens its own a second time.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::io::Errno;

/// A held lock.
#[derive(Debug)]
pub(crate) struct LifeLine {
    _file: File,
}

/// What to do while somebody else holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    GiveUp,
    /// For a lock whose owner is known to be dead: only another sweep can hold it.
    Wait,
}

impl LifeLine {
    /// A new one. Waits for a sweep that has taken the file for a dead owner's; the sweep then
    /// removes it.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().write(true).create_new(true).open(path)?;
        lock(&file, FlockOperation::LockExclusive)?;
        Ok(Self { _file: file })
    }

    /// A dead owner's. `None`: somebody holds it.
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
