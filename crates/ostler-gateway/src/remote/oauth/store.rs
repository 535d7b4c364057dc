//! What logins have brought: one file for each server, for this user alone.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ostler::Places;
use ostler::keeper::Fingerprint;
use serde::{Deserialize, Serialize};

use super::client::Client;
use crate::file_lock::Lock;

/// Between two tries to get a lock that another process has.
const TRY_AGAIN: Duration = Duration::from_millis(20);
/// A key that is valid for so long only is of no use any more.
const NEAR: Duration = Duration::from_secs(30);

/// Where logins are kept.
#[derive(Clone, Debug)]
pub struct Store {
    directory: PathBuf,
}

/// What a login has brought.
#[derive(Clone, Serialize, Deserialize)]
pub struct Login {
    /// What people call the server.
    pub server: String,
    /// The server, by where it is.
    pub resource: String,
    /// The server, as those know it who let us in.
    pub(super) known_as: String,
    /// Who lets us in.
    pub issuer: String,
    pub(super) token_endpoint: String,
    pub(super) revocation_endpoint: Option<String>,
    pub(super) client: Client,
    pub(super) access_token: String,
    pub(super) refresh_token: Option<String>,
    /// In seconds since 1970.
    pub(super) expires_at: Option<u64>,
    /// What it is good for, if that was said.
    pub scope: Option<String>,
}

/// Why logins can't be kept.
#[derive(Debug, thiserror::Error)]
pub enum NoStore {
    /// There is no place for them.
    #[error("there is no directory for logins; set XDG_STATE_HOME to one that can be written")]
    NoDirectory(#[source] io::Error),
    /// A file can't be read or written.
    #[error("{}", path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Another process has it, and does not let go.
    #[error("another process holds the lock of this login")]
    Locked,
}

impl Store {
    /// In this directory, which need not be there yet.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into() }
    }

    /// The user's: in the XDG state directory.
    pub fn of_user() -> Result<Self, NoStore> {
        let places = Places::of_user();
        let place = places.private().map_err(NoStore::NoDirectory)?;
        Ok(Self::new(place.join("logins")))
    }

    /// What the last login to a server has brought.
    pub fn read(&self, server: &str, resource: &str) -> Option<Login> {
        let text = fs::read(self.file(server, resource)).ok()?;
        let login: Login = serde_json::from_slice(&text).ok()?;
        (login.server == server && login.resource == resource).then_some(login)
    }

    /// Keeps it: as a whole or not at all.
    pub(super) fn write(&self, login: &Login) -> Result<(), NoStore> {
        self.make_directory()?;
        let path = self.file(&login.server, &login.resource);
        let draft = path.with_extension(format!("{}.new", std::process::id()));
        let written = write_private(&draft, login).and_then(|()| fs::rename(&draft, &path));
        written.map_err(|source| {
            // Half of it is of no use to anybody.
            let _ = fs::remove_file(&draft);
            NoStore::File { path, source }
        })
    }

    /// Forgets it. Whether there was anything.
    pub(super) fn remove(&self, server: &str, resource: &str) -> Result<bool, NoStore> {
        let path = self.file(server, resource);
        match fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(source) => Err(NoStore::File { path, source }),
        }
    }

    /// Waits for the right to change a login, among all processes.
    pub(super) async fn lock(
        &self,
        server: &str,
        resource: &str,
        limit: Duration,
    ) -> Result<Lock, NoStore> {
        self.make_directory()?;
        let path = self.file(server, resource).with_extension("lock");
        let locked = async {
            loop {
                match Lock::take(&path) {
                    Ok(Some(lock)) => return Ok(lock),
                    Ok(None) => tokio::time::sleep(TRY_AGAIN).await,
                    Err(source) => return Err(NoStore::File { path: path.clone(), source }),
                }
            }
        };
        tokio::time::timeout(limit, locked).await.unwrap_or(Err(NoStore::Locked))
    }

    fn make_directory(&self) -> Result<(), NoStore> {
        use std::os::unix::fs::DirBuilderExt as _;
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.directory);
        made.map_err(NoStore::NoDirectory)
    }

    fn file(&self, server: &str, resource: &str) -> PathBuf {
        let name = Fingerprint::of_text(&format!("{server}\n{resource}"));
        self.directory.join(format!("{name}.json"))
    }
}

fn write_private(path: &Path, login: &Login) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(&serde_json::to_vec_pretty(login)?)?;
    file.sync_all()
}

impl Login {
    /// Whether its issuer is the one that the configuration names, if it names one. The client secret and the
    /// refresh token of a login go to its issuer, so that a login of another issuer must not be used.
    pub(super) fn is_from(&self, pinned: Option<&str>) -> bool {
        pinned.is_none_or(|pinned| pinned == self.issuer)
    }

    /// Whether it is of no use any more, or soon.
    pub(super) fn is_stale(&self) -> bool {
        self.expires_at.is_some_and(|at| at <= now() + NEAR.as_secs())
    }
}

/// In seconds since 1970.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

impl fmt::Debug for Login {
    /// Most of it is secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Login");
        shown.field("server", &self.server).field("issuer", &self.issuer).finish_non_exhaustive()
    }
}
