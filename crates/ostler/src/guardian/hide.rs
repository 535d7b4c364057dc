//! At `strict` the server does not see ostler's own directories.
//!
//! An empty file system is mounted over each of them in the server's mount namespace. It is writable, because an ostler
//! inside the server needs a place for its ledger and sockets as well; what is written there is seen by nobody else
//! and goes with the namespace. What the server needs of ours is mounted back at its place: its sockets to container engines,
//! the shelf with its podman wrapper, and the note that the wrapper writes.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, open};
use rustix::mount::{MountFlags, mount, mount_bind};

use super::namespace::NoNamespace;

/// Enough for the ledgers of an ostler inside, and no burden for the machine.
const OPTIONS: &std::ffi::CStr = c"mode=700,size=16m";

/// Something that stays visible, held from before its directory is hidden.
struct Kept {
    path: PathBuf,
    handle: OwnedFd,
    is_directory: bool,
}

/// Hides these directories, as far as they are there, except for what is kept.
pub(super) fn hide(directories: &[PathBuf], kept: &[PathBuf]) -> Result<(), NoNamespace> {
    let mut places: Vec<PathBuf> =
        directories.iter().filter_map(|place| fs::canonicalize(place).ok()).collect();
    places.sort();
    // What is below another one is hidden with it.
    places.dedup_by(|inner, outer| inner.starts_with(outer));
    let failed = |place: &Path, error| NoNamespace::Hidden(place.to_owned(), error);
    for place in places {
        let kept = hold(&place, kept).map_err(|error| failed(&place, error))?;
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        mount("ostler", &place, "tmpfs", flags, OPTIONS)
            .map_err(|errno| failed(&place, errno.into()))?;
        kept.iter().try_for_each(Kept::put_back).map_err(|error| failed(&place, error))?;
    }
    Ok(())
}

/// What is kept below this directory. What is not there needs no care.
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
