//! Directories for ledgers and sockets, and checks that only this user can write to them.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::process::getuid;

use crate::level::Level;

/// Environment variable that overrides the directory for sockets and session state.
pub const RUNTIME_VARIABLE: &str = "OSTLER_RUNTIME_DIR";

/// Mode bits that let the group or others write.
const OTHERS_WRITE: u32 = 0o022;

/// Directories that may hold ledgers, in order of preference.
///
/// An owner writes to the first that it can write to; a sweep reads all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places(Vec<PathBuf>);

impl Places {
    /// Uses these directories, without duplicates, so that no ledger is seen twice.
    pub fn new(directories: impl IntoIterator<Item = PathBuf>) -> Self {
        let mut places = Vec::new();
        for directory in directories {
            if !places.contains(&directory) {
                places.push(directory);
            }
        }
        Self(places)
    }

    /// Directories of this user: the XDG state directory, then those of [`Places::of_session`].
    pub fn of_user() -> Self {
        Self::new(lasting().into_iter().chain(Self::of_session().0))
    }

    /// Directories that end with the user's session: for sockets, and for ledgers of users without a state directory.
    ///
    /// They depend on the uid alone, because hosts strip variables like `XDG_RUNTIME_DIR` and `TMPDIR` from their
    /// servers, and all clients of a user must find the same gateway: `/run/user/UID/ostler` if `/run/user/UID` exists,
    /// and `/tmp/ostler-UID`. If `OSTLER_RUNTIME_DIR` is set, it replaces both.
    pub fn of_session() -> Self {
        let given = std::env::var_os(RUNTIME_VARIABLE).filter(|value| !value.is_empty());
        match given {
            Some(runtime) => Self::new([Path::new(&runtime).join("ostler")]),
            None => Self::of_uid(),
        }
    }

    fn of_uid() -> Self {
        let uid = getuid().as_raw();
        let runtime = Some(PathBuf::from(format!("/run/user/{uid}")));
        let runtime = runtime.filter(|path| is_private(path)).map(|path| path.join("ostler"));
        Self::new(runtime.into_iter().chain([format!("/tmp/ostler-{uid}").into()]))
    }

    /// Returns the first directory that is, or can be created, accessible to this user alone.
    pub fn private(&self) -> io::Result<&Path> {
        let mut failure = io::Error::from(io::ErrorKind::NotFound);
        for directory in self.directories() {
            match make_private(directory) {
                Ok(()) => return Ok(directory),
                Err(error) => {
                    failure = io::Error::new(error.kind(), describe(directory, &error));
                }
            }
        }
        Err(failure)
    }

    /// The directories that exist and that only this user can write to.
    pub fn ours(&self) -> impl Iterator<Item = &Path> {
        self.directories().filter(|directory| directory.is_absolute() && is_private(directory))
    }

    /// All directories, in order of preference.
    pub fn directories(&self) -> impl Iterator<Item = &Path> {
        self.0.iter().map(PathBuf::as_path)
    }
}

/// ostler's own directories that a server at this level must not see: configuration, state, sockets, and the place of
/// this owner's ledger. Empty below `strict`, where nothing can be hidden.
pub(crate) fn hidden(level: Level, book: Option<&Path>) -> Vec<PathBuf> {
    if level < Level::Strict {
        return Vec::new();
    }
    let home = || variable("HOME").map(|home| home.join(".config"));
    let configuration = variable("XDG_CONFIG_HOME").or_else(home).map(|base| base.join("ostler"));
    // PLACE/owners/ID.
    let place = book.and_then(|book| book.ancestors().nth(2)).map(Path::to_owned);
    // Another gateway of this user may run with other variables.
    let own = Places::of_user().0.into_iter().chain(Places::of_uid().0);
    Places::new(own.chain(configuration).chain(place)).0
}

/// The directory that survives a reboot.
pub(crate) fn lasting() -> Option<PathBuf> {
    let home = || variable("HOME").map(|home| home.join(".local/state"));
    variable("XDG_STATE_HOME").or_else(home).map(|base| base.join("ostler"))
}

fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// Whether only this user can have written to the directory. Others are not read: in `/tmp`, another
/// user may have created a directory with our name first.
pub(crate) fn is_private(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| {
        found.is_dir() && found.uid() == getuid().as_raw() && found.mode() & OTHERS_WRITE == 0
    })
}

/// Why a directory cannot be used.
#[derive(Debug, thiserror::Error)]
enum Unfit {
    #[error("{} is not an absolute path", .0.display())]
    Relative(PathBuf),
    #[error("{} is a symbolic link", .0.display())]
    Link(PathBuf),
    #[error("{} belongs to another user", .0.display())]
    Foreign(PathBuf),
    #[error("{} and its parent directory are writable by other users; remove it", .0.display())]
    Open(PathBuf),
}

/// An error about a directory, as text that names the directory once.
pub(crate) fn describe(directory: &Path, error: &io::Error) -> String {
    let unfit = error.get_ref().and_then(|inner| inner.downcast_ref::<Unfit>());
    if unfit.is_some() { error.to_string() } else { format!("{}: {error}", directory.display()) }
}

/// Makes `path` a directory that only this user can access. Refuses one of another user, and one in a shared directory
/// such as `/tmp` that another user may have written to.
pub(crate) fn make_private(path: &Path) -> io::Result<()> {
    let unfit = |why: fn(PathBuf) -> Unfit| {
        io::Error::new(io::ErrorKind::PermissionDenied, why(path.to_owned()))
    };
    if path.is_relative() {
        return Err(unfit(Unfit::Relative));
    }
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    let found = fs::symlink_metadata(path)?;
    if found.is_symlink() {
        return Err(unfit(Unfit::Link));
    }
    if !found.is_dir() || found.uid() != getuid().as_raw() {
        return Err(unfit(Unfit::Foreign));
    }
    if found.mode() & OTHERS_WRITE != 0 && is_among_others(path)? {
        return Err(unfit(Unfit::Open));
    }
    if found.mode() & 0o077 != 0 {
        fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
    }
    Ok(())
}

/// Whether its parent is writable by others, such as `/tmp`.
fn is_among_others(path: &Path) -> io::Result<bool> {
    let parent = path.parent().unwrap_or(path);
    Ok(fs::metadata(parent)?.mode() & OTHERS_WRITE != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_is_named_twice_is_one_place() {
        let places = Places::new(["/a", "/b", "/a"].map(PathBuf::from));
        assert_eq!(places, Places::new(["/a", "/b"].map(PathBuf::from)));
    }
}
