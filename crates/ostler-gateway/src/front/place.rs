//! Where a gateway is reached.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use ostler::Places;
use ostler::keeper::Fingerprint;

use super::lock::Lock;

/// What the kernel takes as the name of a socket, with room for the name that it has while it is made.
const LONGEST: usize = 100;
/// Of the hash of a configuration's path.
const HASH: usize = 8;
const SUFFIX: &str = "sock";

/// Where a gateway is, or would be, reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place(PathBuf);

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// The name is longer than the kernel takes.
    #[error("{} is too long for a socket: give a path of less than {LONGEST} bytes", .0.display())]
    TooLong(PathBuf),
    /// No directory is this user's alone.
    #[error("no directory can hold the socket; set XDG_RUNTIME_DIR to one that can")]
    NoDirectory(#[source] io::Error),
    /// A gateway is there already.
    #[error("a gateway runs already at {}", .0.display())]
    Taken(PathBuf),
    /// It could not be made.
    #[error("the socket {} can't be made", path.display())]
    Failed {
        /// This one.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

/// A socket that this process alone listens at. It goes with it.
#[derive(Debug)]
pub struct Seat {
    pub(super) listener: UnixListener,
    place: Place,
    _lock: Lock,
}

impl Place {
    /// At this path.
    pub fn at(path: &Path) -> Result<Self, PlaceError> {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        if path.as_os_str().len() >= LONGEST {
            return Err(PlaceError::TooLong(path));
        }
        Ok(Self(path))
    }

    /// The usual one for a gateway with the configuration at this real path, or with none.
    pub fn usual(configuration: Option<&Path>) -> Result<Self, PlaceError> {
        let name = match configuration {
            None => format!("gateway.{SUFFIX}"),
            Some(path) => {
                let hash = Fingerprint::of_text(&path.to_string_lossy()).to_string();
                format!("gateway-{}.{SUFFIX}", &hash[..HASH])
            }
        };
        let places = Places::of_session();
        Self::at(&places.private().map_err(PlaceError::NoDirectory)?.join(name))
    }

    /// The usual ones where there is a socket, whether or not anybody listens.
    pub fn all() -> Vec<Self> {
        let places = Places::of_session();
        let files = places.directories().filter_map(|place| fs::read_dir(place).ok()).flatten();
        let is_socket = |path: &PathBuf| path.extension().is_some_and(|end| end == SUFFIX);
        let mut all: Vec<Self> =
            files.flatten().map(|file| file.path()).filter(is_socket).map(Self).collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    }

    /// The path of the socket.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The name for what belongs to this gateway elsewhere.
    pub fn stem(&self) -> String {
        self.0.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Held by the gateway for as long as it lives.
    fn lock(&self) -> PathBuf {
        self.0.with_extension("lock")
    }

    /// Held by whoever starts a gateway, until that answers.
    pub fn start_lock(&self) -> PathBuf {
        self.0.with_extension("start")
    }

    /// Listens there. A socket that was left behind is replaced; a gateway that lives is not.
    pub fn take(&self) -> Result<Seat, PlaceError> {
        let failed = |source| PlaceError::Failed { path: self.0.clone(), source };
        let lock = Lock::take(&self.lock()).map_err(failed)?;
        let lock = lock.ok_or_else(|| PlaceError::Taken(self.0.clone()))?;
        let listener = self.listen().map_err(failed)?;
        Ok(Seat { listener, place: self.clone(), _lock: lock })
    }

    /// Under another name first: whoever finds the real one can connect, and nobody else can.
    fn listen(&self) -> io::Result<UnixListener> {
        let aside = self.0.with_extension("new");
        match fs::remove_file(&aside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&aside)?;
        fs::set_permissions(&aside, fs::Permissions::from_mode(0o600))?;
        fs::rename(&aside, &self.0)?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    }
}

impl Seat {
    /// Where it is.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// From now on nobody finds it, although it is held.
    pub fn hide(&self) {
        let _ = fs::remove_file(&self.place.0);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.hide();
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_dead_socket_is_replaced_and_a_living_one_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.sock");
        drop(UnixListener::bind(&path).unwrap());
        let place = Place::at(&path).unwrap();
        let seat = place.take().unwrap();
        assert!(UnixStream::connect(&path).is_ok());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(matches!(place.take(), Err(PlaceError::Taken(_))));
        drop(seat);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_long_path_is_refused() {
        let long = format!("/tmp/{}", "x".repeat(LONGEST));
        assert!(matches!(Place::at(Path::new(&long)), Err(PlaceError::TooLong(_))));
    }
}
