//! Path of the configuration of the gateway that was started last.
//!
//! A gateway at its default socket writes the path of its configuration to a file beside that socket. A client that
//! finds no configuration of its own uses that path. MCP hosts strip the environment variables that lead to a
//! configuration; without this file, their clients would get the example server although the user has a gateway with
//! real ones.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use ostler::Places;
use rustix::fs::OFlags;
use rustix::process::getuid;

use super::socket::GatewaySocket;

/// Name of the file with the path.
const FILE: &str = "configuration";
/// Longest path in bytes: `PATH_MAX` of the kernel.
const LONGEST: u64 = 4096;

/// Why the client does not use the recorded path.
#[derive(Debug, thiserror::Error)]
pub enum LastError {
    /// The file belongs to another user, who may have written it.
    #[error("{} belongs to another user, and is not followed", .0.display())]
    Foreign(PathBuf),
    /// The file's mode lets other users read or write it.
    #[error("{} can be read or written by others, and is not followed", .0.display())]
    Open(PathBuf),
    /// The file does not contain an absolute path.
    #[error("{} does not name a configuration", .0.display())]
    Strange(PathBuf),
    /// The configuration that the file names does not exist, or can't be resolved.
    #[error("{} is not there any more", path.display())]
    Gone {
        /// Path of the configuration.
        path: PathBuf,
        /// Error of the system call.
        source: io::Error,
    },
    /// The file can't be opened or read.
    #[error("{} can't be read", path.display())]
    Failed {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system call.
        source: io::Error,
    },
}

/// Records the path of the configuration of the gateway at this socket.
pub fn leave_configuration(socket: &GatewaySocket, configuration: &Path) -> io::Result<()> {
    let directory = socket.path().parent().ok_or(io::ErrorKind::InvalidInput)?;
    // Written aside and renamed, so that readers see all of it; the pid keeps other gateways off the temporary file.
    let aside = directory.join(format!("{FILE}.{}", std::process::id()));
    let _ = fs::remove_file(&aside);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&aside)?;
    let written = file.write_all(configuration.as_os_str().as_bytes());
    written.and_then(|()| fs::rename(&aside, directory.join(FILE))).inspect_err(|_| {
        let _ = fs::remove_file(&aside);
    })
}

/// Canonical path of the configuration of the gateway that was started last. `None` if no gateway has recorded one.
pub fn last_configuration() -> Result<Option<PathBuf>, LastError> {
    let places = Places::of_session();
    let mut found = places.ours().map(|directory| read(&directory.join(FILE)));
    found.find(|read| !matches!(read, Ok(None))).unwrap_or(Ok(None))
}

fn read(file: &Path) -> Result<Option<PathBuf>, LastError> {
    let failed = |source| LastError::Failed { path: file.to_owned(), source };
    // Follows no symbolic link, and does not block on a FIFO.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let mut opened = match OpenOptions::new().read(true).custom_flags(flags).open(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(failed)?,
    };
    check(file, &opened)?;
    let mut path = Vec::new();
    Read::by_ref(&mut opened).take(LONGEST).read_to_end(&mut path).map_err(failed)?;
    let path = PathBuf::from(OsString::from_vec(path));
    if path.is_relative() || path.as_os_str().as_bytes().contains(&0) {
        return Err(LastError::Strange(file.to_owned()));
    }
    match fs::canonicalize(&path) {
        Ok(path) => Ok(Some(path)),
        Err(source) => Err(LastError::Gone { path, source }),
    }
}

/// Checks that only this user can have written the file.
fn check(path: &Path, file: &File) -> Result<(), LastError> {
    let found =
        file.metadata().map_err(|source| LastError::Failed { path: path.to_owned(), source })?;
    let refused = if found.uid() != getuid().as_raw() {
        LastError::Foreign
    } else if found.mode() & 0o077 != 0 {
        LastError::Open
    } else if !found.is_file() || found.len() >= LONGEST {
        LastError::Strange
    } else {
        return Ok(());
    };
    Err(refused(path.to_owned()))
}
