//! Where state is kept.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::process::getuid;

use crate::level::Level;

/// Names the directory for what ends with the user's session, in place of the one that depends on the uid.
pub const RUNTIME_VARIABLE: &str = "OSTLER_RUNTIME_DIR";

/// The mode of what the group or anybody else can write to.
const OTHERS_WRITE: u32 = 0o022;

/// Directories that may hold ledgers, the best first.
///
/// A record is written to the first that takes it; a sweep looks at all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places(Vec<PathBuf>);

impl Places {
    /// These directories. Whatever is there would be seen twice if one were named twice.
    pub fn new(directories: impl IntoIterator<Item = PathBuf>) -> Self {
        let mut places = Vec::new();
        for directory in directories {
            if !places.contains(&directory) {
                places.push(directory);
            }
        }
        Self(places)
    }

    /// The user's: the XDG state directory, then those of [`Places::of_session`].
    pub fn of_user() -> Self {
        Self::new(lasting().into_iter().chain(Self::of_session().0))
    }

    /// Those that end with the user's session: for sockets, and for users without a state directory.
    ///
    /// They depend on the uid alone, because hosts strip variables like `XDG_RUNTIME_DIR` and `TMPDIR` from their
    /// servers, and all clients of a user have to find the same gateway: `/run/user/UID/ostler` if that user has a
    /// `/run/user/UID`, and `/tmp/ostler-UID`. `OSTLER_RUNTIME_DIR` names another directory, which then is the only one.
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

    /// The best of them that can be made, or made sure, to be this user's alone.
    pub fn private(&self) -> io::Result<&Path> {
        let mut failure = io::Error::from(io::ErrorKind::NotFound);
        for directory in self.directories() {
            match make_private(directory) {
                Ok(()) => return Ok(directory),
                // What the system says has no path.
                Err(error) if error.raw_os_error().is_some() => {
                    let text = format!("{}: {error}", directory.display());
                    failure = io::Error::new(error.kind(), text);
                }
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    /// Those that are there already, and this user's alone.
    pub fn ours(&self) -> impl Iterator<Item = &Path> {
        self.directories().filter(|directory| directory.is_absolute() && is_private(directory))
    }

    /// The directories, the best first.
    pub fn directories(&self) -> impl Iterator<Item = &Path> {
        self.0.iter().map(PathBuf::as_path)
    }
}

/// The directories of ostler's own that a server at this level must not see: configuration, state and sockets, and
/// the place of this owner's directory. Less than `strict` can hide none.
pub(crate) fn hidden(level: Level, book: Option<&Path>) -> Vec<PathBuf> {
    if level < Level::Strict {
        return Vec::new();
    }
    let home = || variable("HOME").map(|home| home.join(".config"));
    let configuration = variable("XDG_CONFIG_HOME").or_else(home).map(|base| base.join("ostler"));
    // PLACE/owners/ID.
    let place = book.and_then(|book| book.ancestors().nth(2)).map(Path::to_owned);
    // Another gateway of this user may be where this one is not.
    let own = Places::of_user().0.into_iter().chain(Places::of_uid().0);
    Places::new(own.chain(configuration).chain(place)).0
}

/// The one whose content outlives the machine.
pub(crate) fn lasting() -> Option<PathBuf> {
    let home = || variable("HOME").map(|home| home.join(".local/state"));
    variable("XDG_STATE_HOME").or_else(home).map(|base| base.join("ostler"))
}

fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// Whether only this user can have put anything into the directory. What anybody could have written
/// is not read: among temporary files somebody else may have made a directory of our name first.
pub(crate) fn is_private(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| {
        found.is_dir() && found.uid() == getuid().as_raw() && found.mode() & OTHERS_WRITE == 0
    })
}

/// Why a directory is not used.
#[derive(Debug, thiserror::Error)]
enum Unfit {
    #[error("{} is not an absolute path", .0.display())]
    Relative(PathBuf),
    #[error("{} is a symbolic link", .0.display())]
    Link(PathBuf),
    #[error("{} belongs to another user", .0.display())]
    Foreign(PathBuf),
    #[error("{} can be written by others, and so can its parent directory; remove it", .0.display())]
    Open(PathBuf),
}

/// Makes `path` a directory that only this user can enter. Refuses one of another user, and one among the temporary
/// files that another user may have filled.
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

/// Whether others can put something beside it, as among temporary files.
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
