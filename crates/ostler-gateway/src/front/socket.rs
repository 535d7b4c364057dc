//! Where a gateway is reached.
//!
//! A gateway is shared by all clients of its user, and has the usual place for its configuration. Inside of an
//! instance that would be wrong: the gateway ends with the instance, and must not take other clients with it. So a
//! gateway that is started there has a place of its own, in a directory where no other client looks, and serves
//! only processes of that instance.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use ostler::keeper::Fingerprint;
use ostler::{InstanceId, Places};

use crate::file_lock::Lock;

/// What the kernel takes as the name of a socket, with room for the name that it has while it is made.
const LONGEST: usize = 100;
/// Of the hash of a configuration's path.
const HASH: usize = 8;
const SUFFIX: &str = "sock";
const LOG: &str = "log";
const LOCK: &str = "lock";
const NEW: &str = "new";
/// The directory for gateways that serve one instance.
const INSIDE: &str = "inside";
/// How much of an instance's id is in the name of its gateway's socket.
const ID: usize = 16;

/// Where a gateway is, or would be, reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewaySocket {
    path: PathBuf,
    /// The only instance whose processes are served there.
    instance: Option<InstanceId>,
}

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// The name is longer than the kernel takes.
    #[error("{} is too long for a socket: give a path of less than {LONGEST} bytes", .0.display())]
    TooLong(PathBuf),
    /// No directory is this user's alone.
    #[error("no directory can hold the socket; set OSTLER_RUNTIME_DIR to one that can")]
    NoDirectory(#[source] io::Error),
    /// A gateway is there already.
    #[error("a gateway already runs at {}", .0.display())]
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
pub struct BoundSocket {
    pub(super) listener: UnixListener,
    socket: GatewaySocket,
    _lock: Lock,
}

impl GatewaySocket {
    /// At this path.
    pub fn at(path: &Path) -> Result<Self, SocketError> {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        if path.as_os_str().len() >= LONGEST {
            return Err(SocketError::TooLong(path));
        }
        Ok(Self { path, instance: None })
    }

    /// The place for processes of this instance, of a gateway that would be here if it were for everybody.
    pub fn inside(&self, instance: InstanceId) -> Result<Self, SocketError> {
        let places = inside_places();
        let directory = places.private().map_err(SocketError::NoDirectory)?;
        let hash = hash_of(&self.path);
        let socket = Self::at(&directory.join(format!("{}{hash}.{SUFFIX}", prefix(instance))))?;
        Ok(socket.only_for(Some(instance)))
    }

    /// The same place, for processes of this instance alone.
    #[must_use]
    pub fn only_for(self, instance: Option<InstanceId>) -> Self {
        Self { instance, ..self }
    }

    /// The only instance whose processes are served there.
    pub fn instance(&self) -> Option<InstanceId> {
        self.instance
    }

    /// The usual one for a gateway with the configuration at this real path, or with none.
    pub fn usual(configuration: Option<&Path>) -> Result<Self, SocketError> {
        let name = match configuration {
            None => format!("gateway.{SUFFIX}"),
            Some(path) => format!("gateway-{}.{SUFFIX}", hash_of(path)),
        };
        let places = Places::of_session();
        let best = places.private().map_err(SocketError::NoDirectory)?.join(&name);
        // A gateway that was started before its user logged in is in another one.
        let others = || places.ours().map(|directory| directory.join(&name));
        let running = || others().find(|path| UnixStream::connect(path).is_ok());
        let path = if best.exists() { None } else { running() };
        Self::at(&path.unwrap_or(best))
    }

    /// Whether this is the default place of a gateway with this configuration.
    pub fn is_usual_for(&self, configuration: &Path) -> bool {
        Self::usual(Some(configuration)).is_ok_and(|usual| usual == *self)
    }

    /// The usual ones where there is a socket, whether or not anybody listens.
    pub fn all() -> Vec<Self> {
        sockets_in(&Places::of_session(), "")
    }

    /// The same for gateways that serve this instance.
    pub fn all_inside(instance: InstanceId) -> Vec<Self> {
        let all = sockets_in(&inside_places(), &prefix(instance)).into_iter();
        all.map(|socket| socket.only_for(Some(instance))).collect()
    }

    /// The path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The name for what belongs to this gateway elsewhere.
    pub fn stem(&self) -> String {
        self.path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Where a gateway in the background writes what it has to say. That of an instance ends with its gateway.
    pub fn log(&self) -> io::Result<PathBuf> {
        match self.instance {
            Some(_) => Ok(self.path.with_extension(LOG)),
            None => Ok(Places::of_user().private()?.join(format!("{}.{LOG}", self.stem()))),
        }
    }

    /// Held by the gateway for as long as it lives.
    fn lock(&self) -> PathBuf {
        self.path.with_extension(LOCK)
    }

    /// Held by whoever starts a gateway, until that answers.
    pub fn start_lock(&self) -> PathBuf {
        self.path.with_extension("start")
    }

    /// Listens there. A socket that was left behind is replaced; a gateway that lives is not.
    pub fn take(&self) -> Result<BoundSocket, SocketError> {
        let failed = |source| SocketError::Failed { path: self.path.clone(), source };
        let lock = Lock::take(&self.lock()).map_err(failed)?;
        let lock = lock.ok_or_else(|| SocketError::Taken(self.path.clone()))?;
        let listener = self.listen().map_err(failed)?;
        Ok(BoundSocket { listener, socket: self.clone(), _lock: lock })
    }

    /// Under another name first: whoever finds the real one can connect, and nobody else can.
    fn listen(&self) -> io::Result<UnixListener> {
        let aside = self.path.with_extension(NEW);
        match fs::remove_file(&aside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&aside)?;
        fs::set_permissions(&aside, fs::Permissions::from_mode(0o600))?;
        fs::rename(&aside, &self.path)?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    }
}

impl BoundSocket {
    /// Where it is.
    pub fn socket(&self) -> &GatewaySocket {
        &self.socket
    }

    /// From now on nobody finds it, although it is held.
    pub fn hide(&self) {
        let _ = fs::remove_file(&self.socket.path);
        if self.socket.instance.is_some() {
            let _ = fs::remove_file(self.socket.path.with_extension(LOG));
        }
    }
}

impl Drop for BoundSocket {
    fn drop(&mut self) {
        self.hide();
    }
}

/// Removes what gateways of instances have left that were killed.
pub fn remove_stale() {
    let places = inside_places();
    let files = places.directories().filter_map(|socket| fs::read_dir(socket).ok()).flatten();
    let is_lock = |path: &PathBuf| path.extension().is_some_and(|end| end == LOCK);
    for path in files.flatten().map(|file| file.path()).filter(is_lock) {
        // A gateway that lives holds it, and one that starts takes it first.
        if let Ok(Some(_held)) = Lock::take(&path) {
            for end in [SUFFIX, LOG, NEW] {
                let _ = fs::remove_file(path.with_extension(end));
            }
        }
    }
}

fn inside_places() -> Places {
    Places::new(Places::of_session().directories().map(|socket| socket.join(INSIDE)))
}

fn sockets_in(places: &Places, prefix: &str) -> Vec<GatewaySocket> {
    let files = places.directories().filter_map(|socket| fs::read_dir(socket).ok()).flatten();
    let is_named = |path: &PathBuf| {
        path.extension().is_some_and(|end| end == SUFFIX)
            && path
                .file_name()
                .is_some_and(|name| name.as_encoded_bytes().starts_with(prefix.as_bytes()))
    };
    let mut paths: Vec<PathBuf> =
        files.flatten().map(|file| file.path()).filter(is_named).collect();
    paths.sort();
    paths.into_iter().map(|path| GatewaySocket { path, instance: None }).collect()
}

fn prefix(instance: InstanceId) -> String {
    format!("{}-", &instance.to_string()[..ID])
}

fn hash_of(path: &Path) -> String {
    Fingerprint::of_text(&path.to_string_lossy()).to_string()[..HASH].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_socket_is_replaced_and_a_living_one_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.sock");
        drop(UnixListener::bind(&path).unwrap());
        let socket = GatewaySocket::at(&path).unwrap();
        let bound = socket.take().unwrap();
        assert!(UnixStream::connect(&path).is_ok());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(matches!(socket.take(), Err(SocketError::Taken(_))));
        drop(bound);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_long_path_is_refused() {
        let long = format!("/tmp/{}", "x".repeat(LONGEST));
        assert!(matches!(GatewaySocket::at(Path::new(&long)), Err(SocketError::TooLong(_))));
    }
}
