//! Reading the records that ostler keeps for itself: ledgers and notes.
//!
//! A server of the same user may have put anything in their place. So a link is not followed, a pipe is not waited
//! for, and no record is longer than [`LONGEST`].

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::process::getuid;

/// Longer than any record that ostler has written, in bytes.
const LONGEST: u64 = 16 << 20;

/// The content of a regular file of this user.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() || found.uid() != getuid().as_raw() || found.len() > LONGEST {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a record of this user"));
    }
    let mut text = Vec::new();
    file.take(LONGEST).read_to_end(&mut text)?;
    Ok(text)
}
