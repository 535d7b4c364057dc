//! Stored logins: one JSON file for each remote server, readable by its owner only.
//!
//! Files are in `logins` below the XDG state directory. A file name is the hash of the server's name and URL, and the
//! file repeats both, so that a login is never used for another server. A file is replaced by renaming a complete
//! draft. Processes that change a login hold a lock file beside it; readers need no lock.

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

/// Delay between two attempts to take a lock that another process holds.
const TRY_AGAIN: Duration = Duration::from_millis(20);
/// A token that expires within this time is treated as expired.
const NEAR: Duration = Duration::from_secs(30);

/// Directory of stored logins.
#[derive(Clone, Debug)]
pub struct Store {
    directory: PathBuf,
}

/// Tokens of one login, with all that refreshing and revoking them takes.
#[derive(Clone, Serialize, Deserialize)]
pub struct Login {
    /// The server's name in the configuration.
    pub server: String,
    /// The server's URL without query.
    pub resource: String,
    /// The resource identifier that the server's metadata names, sent with every token request.
    pub(super) known_as: String,
    /// Issuer identifier of the authorization server.
    pub issuer: String,
    pub(super) token_endpoint: String,
    pub(super) revocation_endpoint: Option<String>,
    pub(super) client: Client,
    pub(super) access_token: String,
    pub(super) refresh_token: Option<String>,
    /// Expiry of the access token, in seconds since 1970.
    pub(super) expires_at: Option<u64>,
    /// Granted scopes, separated by spaces; `None` if neither the issuer nor the request named any.
    pub scope: Option<String>,
}

/// Why a login can't be stored.
#[derive(Debug, thiserror::Error)]
pub enum NoStore {
    /// No state directory exists, or it can't be created.
    #[error("there is no directory for logins; set XDG_STATE_HOME to one that can be written")]
    NoDirectory(#[source] io::Error),
    /// A file can't be written, removed or locked.
    #[error("{}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Another process held the lock for longer than the timeout.
    #[error("another process holds the lock of this login")]
    Locked,
}

impl Store {
    /// Uses this directory, which is created when needed.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into() }
    }

    /// The user's store, in the XDG state directory.
    pub fn of_user() -> Result<Self, NoStore> {
        let places = Places::of_user();
        let place = places.private().map_err(NoStore::NoDirectory)?;
        Ok(Self::new(place.join("logins")))
    }

    /// The stored login of a server.
    pub fn read(&self, server: &str, resource: &str) -> Option<Login> {
        let text = fs::read(self.file(server, resource)).ok()?;
        let login: Login = serde_json::from_slice(&text).ok()?;
        (login.server == server && login.resource == resource).then_some(login)
    }

    /// Replaces the stored login atomically.
    pub(super) fn write(&self, login: &Login) -> Result<(), NoStore> {
        self.make_directory()?;
        let path = self.file(&login.server, &login.resource);
        let draft = path.with_extension(format!("{}.new", std::process::id()));
        let written = write_private(&draft, login).and_then(|()| fs::rename(&draft, &path));
        written.map_err(|source| {
            // A partial draft is useless and may hold a secret.
            let _ = fs::remove_file(&draft);
            NoStore::File { path, source }
        })
    }

    /// Deletes the stored login. Returns whether there was one.
    pub(super) fn remove(&self, server: &str, resource: &str) -> Result<bool, NoStore> {
        let path = self.file(server, resource);
        match fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(source) => Err(NoStore::File { path, source }),
        }
    }

    /// Takes the lock for changing a login, waiting up to `limit` for other processes.
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
    /// Whether the login is from the configured issuer, if one is configured. The client secret and the refresh token
    /// of a login are sent to its issuer, so a login of another issuer must not be used.
    pub(super) fn is_from(&self, pinned: Option<&str>) -> bool {
        pinned.is_none_or(|pinned| pinned == self.issuer)
    }

    /// Whether the access token has expired or is about to.
    pub(super) fn is_stale(&self) -> bool {
        self.expires_at.is_some_and(|at| at <= now() + NEAR.as_secs())
    }
}

/// The current time in seconds since 1970.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

impl fmt::Debug for Login {
    /// Leaves the tokens out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Login");
        shown.field("server", &self.server).field("issuer", &self.issuer).finish_non_exhaustive()
    }
}
