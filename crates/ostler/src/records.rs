//! Opens ledgers, notes and logs safely.
//!
//! A server of the same user may have replaced them. So symbolic links are not followed, opening a FIFO does not block,
//! and records longer than [`LONGEST`] are rejected.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::process::getuid;

/// Follows no symbolic link, and does not wait for the other end of a FIFO.
const UNLINKED: i32 = libc::O_NOFOLLOW | libc::O_NONBLOCK;
/// Longest record that is read, in bytes; ostler writes much shorter ones.
const LONGEST: u64 = 16 << 20;

/// Reads a regular file of this user.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let file = open(path)?;
    if file.metadata()?.len() > LONGEST {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "too large for a record"));
    }
    let mut text = Vec::new();
    file.take(LONGEST).read_to_end(&mut text)?;
    Ok(text)
}

/// Opens a regular file of this user for reading.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    checked(File::options().read(true).custom_flags(UNLINKED).open(path)?)
}

/// Opens a regular file of this user for reading and appending, and creates it if it is missing.
pub(crate) fn open_to_append(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).append(true).create(true).mode(0o600).custom_flags(UNLINKED);
    checked(options.open(path)?)
}

fn checked(file: File) -> io::Result<File> {
    let found = file.metadata()?;
    if found.is_file() && found.uid() == getuid().as_raw() {
        return Ok(file);
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file of this user"))
}
