//! Path of a gateway's unix socket, and the lock that makes its gateway the only one.
//!
//! All clients of a user share one gateway for each configuration; the name of its socket contains a hash of the
//! configuration's path. A gateway that is started inside of an instance ends with that instance and must not take
//! other clients with it. So it has a socket of its own, in the directory `inside` where other clients don't look,
//! and serves only processes of that instance.
//!
//! Beside the socket is a lock file, which the gateway holds as long as it lives. Under that lock it binds a socket
//! with a temporary name and renames it, so a client that finds the socket can connect. A killed gateway leaves files
//! behind: the next one with the same path replaces them, and `remove_stale` deletes those of instances.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use ostler::keeper::Fingerprint;
use ostler::{InstanceId, Places};
use rustix::net::listen;

use crate::file_lock::Lock;

/// Limit on the length of a path in bytes: `sun_path` has 108, and the temporary name needs some of them.
const LONGEST: usize = 100;
/// Hex digits of the hash of a configuration's path.
const HASH: usize = 8;
/// Clients that may wait to be accepted.
const BACKLOG: i32 = 128;
const SUFFIX: &str = "sock";
const LOG: &str = "log";
const LOCK: &str = "lock";
const NEW: &str = "new";
/// Directory for gateways that serve one instance.
const INSIDE: &str = "inside";
/// Hex digits of an instance id in the name of its gateway's socket.
const ID: usize = 16;

/// Path of the socket at which a gateway listens, or would listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewaySocket {
    path: PathBuf,
    /// The gateway there serves only processes of this instance.
    instance: Option<InstanceId>,
}

/// Why the gateway has no socket.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// The path is too long for a unix socket.
    #[error("{} is too long for a socket: give a path of less than {LONGEST} bytes", .0.display())]
    TooLong(PathBuf),
    /// No runtime directory is accessible to this user alone.
    #[error("no directory can hold the socket; set OSTLER_RUNTIME_DIR to one that can")]
    NoDirectory(#[source] io::Error),
    /// A running gateway holds the lock.
    #[error("a gateway already runs at {}", .0.display())]
    Taken(PathBuf),
    /// The service manager passed a socket without a path.
    #[error("the service manager's socket can't be used")]
    Unnamed(#[source] io::Error),
    /// The lock or the socket could not be created.
    #[error("the socket {} can't be made", path.display())]
    Failed {
        /// Path of the socket.
        path: PathBuf,
        /// Error of the system call.
        source: io::Error,
    },
}

/// Listening socket with its lock. The drop removes the socket, unless a service manager made it.
#[derive(Debug)]
pub struct BoundSocket {
    pub(super) listener: UnixListener,
    socket: GatewaySocket,
    /// Whether a service manager listens there as well, and removes the socket itself.
    is_adopted: bool,
    _lock: Lock,
}

impl GatewaySocket {
    /// Socket at this path.
    pub fn at(path: &Path) -> Result<Self, SocketError> {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        if path.as_os_str().len() >= LONGEST {
            return Err(SocketError::TooLong(path));
        }
        Ok(Self { path, instance: None })
    }

    /// Socket of the gateway that serves only this instance, in place of the gateway at this path.
    pub fn inside(&self, instance: InstanceId) -> Result<Self, SocketError> {
        let places = inside_places();
        let directory = places.private().map_err(SocketError::NoDirectory)?;
        let hash = hash_of(&self.path);
        let socket = Self::at(&directory.join(format!("{}{hash}.{SUFFIX}", prefix(instance))))?;
        Ok(socket.only_for(Some(instance)))
    }

    /// The same path, restricted to processes of this instance.
    #[must_use]
    pub fn only_for(self, instance: Option<InstanceId>) -> Self {
        Self { instance, ..self }
    }

    /// The only instance whose processes the gateway there serves.
    pub fn instance(&self) -> Option<InstanceId> {
        self.instance
    }

    /// Default socket of a gateway with the configuration at this canonical path, or without one.
    pub fn usual(configuration: Option<&Path>) -> Result<Self, SocketError> {
        let name = match configuration {
            None => format!("gateway.{SUFFIX}"),
            Some(path) => format!("gateway-{}.{SUFFIX}", hash_of(path)),
        };
        let places = Places::of_session();
        let best = places.private().map_err(SocketError::NoDirectory)?.join(&name);
        // A gateway that was started before its user logged in is in another runtime directory.
        let others = || places.ours().map(|directory| directory.join(&name));
        let running = || others().find(|path| UnixStream::connect(path).is_ok());
        let path = if best.exists() { None } else { running() };
        Self::at(&path.unwrap_or(best))
    }

    /// Whether this is the default socket of a gateway with this configuration.
    pub fn is_usual_for(&self, configuration: &Path) -> bool {
        Self::usual(Some(configuration)).is_ok_and(|usual| usual == *self)
    }

    /// All default sockets that exist, with or without a running gateway.
    pub fn all() -> Vec<Self> {
        sockets_in(&Places::of_session(), "")
    }

    /// All sockets that exist for gateways of this instance.
    pub fn all_inside(instance: InstanceId) -> Vec<Self> {
        let all = sockets_in(&inside_places(), &prefix(instance)).into_iter();
        all.map(|socket| socket.only_for(Some(instance))).collect()
    }

    /// Path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// File name without its extension, the base of the names of related files elsewhere.
    pub fn stem(&self) -> String {
        self.path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Log file of a gateway in the background. The log of an instance's gateway is beside its socket, and is removed
    /// with it.
    pub fn log(&self) -> io::Result<PathBuf> {
        match self.instance {
            Some(_) => Ok(self.path.with_extension(LOG)),
            None => Ok(Places::of_user().private()?.join(format!("{}.{LOG}", self.stem()))),
        }
    }

    /// Lock file that the gateway holds as long as it lives.
    fn lock(&self) -> PathBuf {
        self.path.with_extension(LOCK)
    }

    /// Lock file that a client holds while it starts a gateway, until that gateway answers.
    pub fn start_lock(&self) -> PathBuf {
        self.path.with_extension("start")
    }

    /// Listens on the socket. Replaces a socket that a dead gateway left behind; fails if a gateway runs.
    pub fn take(&self) -> Result<BoundSocket, SocketError> {
        let lock = self.only_one()?;
        let listener = self.listen().map_err(|error| self.failed(error))?;
        Ok(BoundSocket { listener, socket: self.clone(), is_adopted: false, _lock: lock })
    }

    /// Uses a socket on which a service manager listens, and starts a gateway when a client connects. Fails if a gateway
    /// runs there.
    pub fn adopt(listener: UnixListener) -> Result<BoundSocket, SocketError> {
        let address = listener.local_addr().map_err(SocketError::Unnamed)?;
        let unnamed = || SocketError::Unnamed(io::Error::other("it has no path"));
        let path = address.as_pathname().ok_or_else(unnamed)?;
        let socket = Self::at(path)?;
        let lock = socket.only_one()?;
        // Clients see the process that called `listen` last as their peer, and `ostler down` waits for its exit.
        let prepared = listen(&listener, BACKLOG).map_err(io::Error::from);
        prepared.and_then(|()| listener.set_nonblocking(true)).map_err(|e| socket.failed(e))?;
        Ok(BoundSocket { listener, socket, is_adopted: true, _lock: lock })
    }

    /// The lock that makes a gateway the only one.
    fn only_one(&self) -> Result<Lock, SocketError> {
        let lock = Lock::take(&self.lock()).map_err(|error| self.failed(error))?;
        lock.ok_or_else(|| SocketError::Taken(self.path.clone()))
    }

    fn failed(&self, source: io::Error) -> SocketError {
        SocketError::Failed { path: self.path.clone(), source }
    }

    /// Binds a temporary name and renames it when it is ready and private: a client that finds the socket can
    /// connect, and no other user can.
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
    /// Path of the socket.
    pub fn socket(&self) -> &GatewaySocket {
        &self.socket
    }

    /// Removes the socket, so that clients no longer find it. The lock stays held.
    pub fn hide(&self) {
        // Clients that come now wait for the next gateway that the manager starts.
        if self.is_adopted {
            return;
        }
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

/// Removes the files of instances' gateways that were killed.
pub fn remove_stale() {
    let places = inside_places();
    let files = places.directories().filter_map(|socket| fs::read_dir(socket).ok()).flatten();
    let is_lock = |path: &PathBuf| path.extension().is_some_and(|end| end == LOCK);
    for path in files.flatten().map(|file| file.path()).filter(is_lock) {
        // A running gateway holds this lock, and a starting one takes it before anything else.
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
