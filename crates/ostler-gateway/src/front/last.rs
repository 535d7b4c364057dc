//! The configuration of the gateway that was started last.
//!
//! A gateway at its usual place leaves the path of its configuration beside its socket. A client that finds no
//! configuration of its own follows it: hosts strip the variables that lead to one, and without this file such a client
//! would get the example server although its user has a gateway with real ones.

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

/// The file with the path.
const FILE: &str = "configuration";
/// What the kernel takes as a path.
const LONGEST: u64 = 4096;

/// Why the path is not followed.
#[derive(Debug, thiserror::Error)]
pub enum LastError {
    /// Another user may have written it.
    #[error("{} belongs to another user, and is not followed", .0.display())]
    Foreign(PathBuf),
    /// The same.
    #[error("{} can be read or written by others, and is not followed", .0.display())]
    Open(PathBuf),
    /// It holds something else.
    #[error("{} does not name a configuration", .0.display())]
    Strange(PathBuf),
    /// What it names has been removed.
    #[error("{} is not there any more", path.display())]
    Gone {
        /// The configuration.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// It can't be read.
    #[error("{} can't be read", path.display())]
    Failed {
        /// This file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

/// Leaves the path of the configuration that the gateway at this place has.
pub fn leave_configuration(socket: &GatewaySocket, configuration: &Path) -> io::Result<()> {
    let directory = socket.path().parent().ok_or(io::ErrorKind::InvalidInput)?;
    // As a whole, and under a name that no other gateway uses at the same time.
    let aside = directory.join(format!("{FILE}.{}", std::process::id()));
    let _ = fs::remove_file(&aside);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&aside)?;
    let written = file.write_all(configuration.as_os_str().as_bytes());
    written.and_then(|()| fs::rename(&aside, directory.join(FILE))).inspect_err(|_| {
        let _ = fs::remove_file(&aside);
    })
}

/// The real path of the configuration of the gateway that was started last. `None` if no gateway has left one.
pub fn last_configuration() -> Result<Option<PathBuf>, LastError> {
    let places = Places::of_session();
    let mut found = places.ours().map(|directory| read(&directory.join(FILE)));
    found.find(|read| !matches!(read, Ok(None))).unwrap_or(Ok(None))
}

fn read(file: &Path) -> Result<Option<PathBuf>, LastError> {
    let failed = |source| LastError::Failed { path: file.to_owned(), source };
    // Follows no link, and does not block on a FIFO.
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

/// Only this user can have written it.
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
