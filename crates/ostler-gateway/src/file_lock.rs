//! Lock files: only one process at a time holds the lock.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Attempts to open and lock a file that its last holder keeps removing.
const ATTEMPTS: usize = 100;

/// A held lock. Dropping it removes the file and releases the lock; after a kill the kernel releases it and the file
/// stays.
#[derive(Debug)]
pub struct Lock {
    path: PathBuf,
    /// Closing the file releases the lock. The descriptor is close-on-exec, so child processes do not inherit it.
    _file: File,
}

impl Lock {
    /// Takes the lock. Returns `None` if another holder has it.
    pub fn take(path: &Path) -> io::Result<Option<Self>> {
        for _ in 0..ATTEMPTS {
            let mut options = OpenOptions::new();
            let file = options.write(true).create(true).truncate(false).mode(0o600).open(path)?;
            match file.try_lock() {
                Ok(()) if is_still(path, &file) => {
                    return Ok(Some(Self { path: path.to_owned(), _file: file }));
                }
                // The last holder removed the file: other processes would lock a new file instead of this one.
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        Ok(None)
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Removed while locked, so that a process that has the old file open notices that it is gone.
        let _ = fs::remove_file(&self.path);
    }
}

fn is_still(path: &Path, file: &File) -> bool {
    let same = |there: &fs::Metadata, held: &fs::Metadata| {
        there.ino() == held.ino() && there.dev() == held.dev()
    };
    matches!((fs::symlink_metadata(path), file.metadata()), (Ok(a), Ok(b)) if same(&a, &b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_has_one_holder_and_leaves_no_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let held = Lock::take(&path).unwrap().unwrap();
        assert!(Lock::take(&path).unwrap().is_none());
        drop(held);
        assert!(!path.exists());
        assert!(Lock::take(&path).unwrap().is_some());
    }
}
