//! Hides ostler's own directories from a server at `strict`.
//!
//! The init mounts an empty tmpfs over each of them in the server's mount namespace. The tmpfs is writable, because an
//! ostler that runs inside the server needs a place for its own ledger and sockets; its content is visible only in the
//! namespace and vanishes with it. The init then bind-mounts back what the server needs: its sockets to container
//! engines, the shelf with its podman wrapper, and the note that the wrapper writes.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, open};
use rustix::mount::{MountFlags, mount, mount_bind};

use super::namespace::NamespaceError;

/// 16 MiB is enough for the ledgers of an ostler inside and bounds the memory that the server can take this way.
const OPTIONS: &std::ffi::CStr = c"mode=700,size=16m";

/// A file or directory that stays visible, opened before its directory is hidden.
struct Kept {
    path: PathBuf,
    handle: OwnedFd,
    is_directory: bool,
}

/// Hides those of `directories` that exist, except for the paths in `kept`.
pub(super) fn hide(directories: &[PathBuf], kept: &[PathBuf]) -> Result<(), NamespaceError> {
    let mut places: Vec<PathBuf> =
        directories.iter().filter_map(|place| fs::canonicalize(place).ok()).collect();
    places.sort();
    // A directory below another one is hidden with it.
    places.dedup_by(|inner, outer| inner.starts_with(outer));
    let failed = |place: &Path, error| NamespaceError::Hidden(place.to_owned(), error);
    for place in places {
        let kept = hold(&place, kept).map_err(|error| failed(&place, error))?;
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        mount("ostler", &place, "tmpfs", flags, OPTIONS)
            .map_err(|errno| failed(&place, errno.into()))?;
        kept.iter().try_for_each(Kept::put_back).map_err(|error| failed(&place, error))?;
    }
    Ok(())
}

/// Opens the paths to be kept below this directory. Missing paths are skipped.
fn hold(place: &Path, kept: &[PathBuf]) -> io::Result<Vec<Kept>> {
    let paths = kept.iter().filter_map(|path| fs::canonicalize(path).ok());
    let below = paths.filter(|path| path.starts_with(place));
    below
        .map(|path| {
            let handle = open(&path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
            Ok(Kept { is_directory: path.is_dir(), handle, path })
        })
        .collect()
}

impl Kept {
    fn put_back(&self) -> io::Result<()> {
        if let Some(parent) = self.path.parent() {
            fs::create_dir_all(parent)?;
        }
        if self.is_directory {
            fs::create_dir(&self.path)?;
        } else {
            File::create(&self.path)?;
        }
        let source = format!("/proc/self/fd/{}", self.handle.as_raw_fd());
        Ok(mount_bind(source, &self.path)?)
    }
}
