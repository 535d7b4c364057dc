//! Where the sockets and the wrapper of a server can be.

use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{StatVfsMountFlags, statvfs};

use crate::places::{Places, lasting, make_private};

/// What every client of an engine can still reach: the kernel's limit is 107, some have their own.
const LONGEST_SOCKET: usize = 99;
/// What a script's first line can name: the kernel's limit is 253, or 125 for old ones.
const LONGEST_INTERPRETER: usize = 100;

/// Where a socket of this name can be, in a directory that only this user can enter.
pub(super) fn socket_path(name: &str) -> io::Result<PathBuf> {
    private_path(name, |path| path.as_os_str().len() <= LONGEST_SOCKET)
}

/// The same for a directory with a script and its interpreter, which the kernel has to read.
pub(super) fn script_path(name: &str) -> io::Result<PathBuf> {
    private_path(name, |path| {
        let text = path.as_os_str().as_encoded_bytes();
        let is_plain =
            text.len() <= LONGEST_INTERPRETER && !text.iter().any(u8::is_ascii_whitespace);
        is_plain && may_execute(path)
    })
}

fn may_execute(path: &Path) -> bool {
    let nearest = path.ancestors().find_map(|place| statvfs(place).ok());
    nearest.is_some_and(|found| !found.f_flag.contains(StatVfsMountFlags::NOEXEC))
}

fn private_path(name: &str, fits: impl Fn(&Path) -> bool) -> io::Result<PathBuf> {
    let mut last = io::ErrorKind::InvalidFilename.into();
    for place in Places::of_session().directories().map(Path::to_owned).chain(lasting()) {
        let directory = place.join("doors");
        let path = directory.join(name);
        if !fits(&path) {
            continue;
        }
        match make_private(&place).and_then(|()| make_private(&directory)) {
            Ok(()) => return Ok(path),
            Err(error) => last = error,
        }
    }
    Err(last)
}
