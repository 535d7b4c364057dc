//! Reads ledgers and notes safely.
//!
//! A server of the same user may have replaced them. So symbolic links are not followed, opening a FIFO does not block,
//! and records longer than [`LONGEST`] are rejected.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::process::getuid;

/// Longest record that is read, in bytes; ostler writes much shorter ones.
const LONGEST: u64 = 16 << 20;

/// Reads a regular file of this user.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() || found.uid() != getuid().as_raw() || found.len() > LONGEST {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file of this user"));
    }
    let mut text = Vec::new();
    file.take(LONGEST).read_to_end(&mut text)?;
    Ok(text)
}
