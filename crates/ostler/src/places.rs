//! Where state is kept.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::process::getuid;

use crate::level::Level;

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

    /// The user's: the XDG state directory, the XDG runtime directory, and a private one among
    /// the temporary files for users who have neither.
    pub fn of_user() -> Self {
        Self::new(lasting().into_iter().chain(Self::of_session().0))
    }

    /// Those that end with the user's session: for sockets, and for users without a state directory.
    pub fn of_session() -> Self {
        let uid = getuid().as_raw();
        let runtime =
            variable("XDG_RUNTIME_DIR").unwrap_or_else(|| format!("/run/user/{uid}").into());
        let temporary = std::env::temp_dir().join(format!("ostler-{uid}"));
        Self::new([runtime.join("ostler"), temporary])
    }

    /// The best of them that can be made, or made sure, to be this user's alone.
    pub fn private(&self) -> io::Result<&Path> {
        let mut failure = io::Error::from(io::ErrorKind::NotFound);
        for directory in self.directories() {
            match make_private(directory) {
                Ok(()) => return Ok(directory),
                Err(error) => failure = error,
            }
        }
        Err(failure)
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
    Places::new(Places::of_user().0.into_iter().chain(configuration).chain(place)).0
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
        found.is_dir() && found.uid() == getuid().as_raw() && found.mode() & 0o022 == 0
    })
}

/// Makes `path` a directory that nobody else can enter, and refuses one that is somebody else's.
pub(crate) fn make_private(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    let found = fs::symlink_metadata(path)?;
    if !found.is_dir() || found.uid() != getuid().as_raw() {
        let text = format!("{} belongs to somebody else", path.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    if found.mode() & 0o077 != 0 {
        fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
    }
    Ok(())
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
