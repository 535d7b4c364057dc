//! Reads whole text files up to a size limit.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// Why a file can't be read.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// The system reported an error.
    #[error("{} can't be read", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The path is a directory, a pipe or a device.
    #[error("{} is not a file", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The file exceeds the size limit.
    #[error("{} is larger than {limit} bytes", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Size limit in bytes.
        limit: u64,
    },
    /// The file is not valid UTF-8.
    #[error("{}: line {line} is not UTF-8", path.display())]
    NotText {
        /// The file.
        path: PathBuf,
        /// The first invalid line, from 1.
        line: usize,
    },
}

/// Reads a text file of at most `limit` bytes, without ever blocking on a pipe.
pub(super) fn read(path: &Path, limit: u64) -> Result<String, Unreadable> {
    let owned = || path.to_owned();
    let failed = |source| Unreadable::Io { path: owned(), source };
    let file = open(path).map_err(failed)?;
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(Unreadable::NotAFile { path: owned() });
    }
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > limit {
        return Err(Unreadable::TooLarge { path: owned(), limit });
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = memchr::memchr_iter(b'\n', valid).count() + 1;
        Unreadable::NotText { path: owned(), line }
    })?;
    // Some editors write a byte order mark.
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

/// Opens without blocking: opening a FIFO without a writer would wait.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}
