//! A file that one process holds at a time.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// How often a file is opened anew that its last holder has removed.
const ATTEMPTS: usize = 100;

/// A lock that falls with its holder. The file goes with it, unless the holder is killed.
#[derive(Debug)]
pub struct Lock {
    path: PathBuf,
    /// Its lock falls when it is closed; close-on-exec keeps it from everybody else.
    _file: File,
}

impl Lock {
    /// Takes it. `None`: somebody has it.
    pub fn take(path: &Path) -> io::Result<Option<Self>> {
        for _ in 0..ATTEMPTS {
            let mut options = OpenOptions::new();
            let file = options.write(true).create(true).truncate(false).mode(0o600).open(path)?;
            match file.try_lock() {
                Ok(()) if is_still(path, &file) => {
                    return Ok(Some(Self { path: path.to_owned(), _file: file }));
                }
                // Its last holder has removed it: others would not see that we have it.
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
        // While it is held: so that nobody waits for a file that is not there any more.
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
    fn one_at_a_time_and_nothing_is_left() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let held = Lock::take(&path).unwrap().unwrap();
        assert!(Lock::take(&path).unwrap().is_none());
        drop(held);
        assert!(!path.exists());
        assert!(Lock::take(&path).unwrap().is_some());
    }
}
