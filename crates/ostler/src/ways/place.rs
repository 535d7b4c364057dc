//! Chooses directories for a server's sockets and its podman wrapper.

use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{StatVfsMountFlags, statvfs};

use crate::places::{Places, lasting, make_private};

/// Bytes of a socket path. The kernel's limit is 107; some clients have lower ones.
const LONGEST_SOCKET: usize = 99;
/// Bytes of the interpreter path in a script. The kernel's limit is 253, that of old kernels 125.
const LONGEST_INTERPRETER: usize = 100;

/// A path for a socket of this name, in a directory that only this user can enter.
pub(super) fn socket_path(name: &str) -> io::Result<PathBuf> {
    private_path(name, |path| path.as_os_str().len() <= LONGEST_SOCKET)
}

/// A path for a directory with a script, whose interpreter path the kernel must be able to parse and execute.
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
