//! Bearer token of one remote server, shared by all its conversations.
//!
//! The stored login is the only copy: every request reads the file, so that `ostler login` takes effect at once. A
//! token that is about to expire is refreshed before use, and one that the server rejected is refreshed on demand.
//! Refreshing is serialized within the process by a mutex and between processes by the store's lock; a caller that had
//! to wait finds the new token in the file and uses it. A login of another issuer than the configured one is ignored.

use std::sync::Arc;

use hyper::header::HeaderValue;
use tokio::sync::Mutex;

use super::grant::{NoGrant, renew};
use super::store::{Login, Store};
use crate::remote::http::Way;

/// Reads and refreshes the stored login of one server.
#[derive(Clone, Debug)]
pub(crate) struct Keyring {
    store: Store,
    server: String,
    resource: String,
    /// The configured issuer; logins of other issuers are ignored.
    pinned: Option<String>,
    way: Way,
    /// Held while refreshing: waiting callers then find the new token in the store.
    turn: Arc<Mutex<()>>,
}

impl Keyring {
    pub(crate) fn new(
        store: Store,
        server: &str,
        resource: String,
        pinned: Option<&str>,
        way: Way,
    ) -> Self {
        let (server, pinned) = (server.to_owned(), pinned.map(ToOwned::to_owned));
        Self { store, server, resource, pinned, way, turn: Arc::default() }
    }

    /// The current token as an `Authorization` value. A token that is about to expire is refreshed first.
    pub(crate) async fn key(&self) -> Option<HeaderValue> {
        let login = self.read()?;
        let key = key_of(&login);
        if !login.is_stale() || login.refresh_token.is_none() {
            return key;
        }
        // If refreshing fails, the server decides whether the old token is still valid.
        self.newer(key.as_ref()).await.or(key)
    }

    /// A token other than `old`, which the server rejected.
    pub(crate) async fn newer(&self, old: Option<&HeaderValue>) -> Option<HeaderValue> {
        let (keyring, old) = (self.clone(), old.cloned());
        // In a task, so that it completes even if the caller is cancelled: a refresh token that was used and whose
        // replacement was not stored is lost.
        tokio::spawn(async move { keyring.find_newer(old).await }).await.ok().flatten()
    }

    async fn find_newer(&self, old: Option<HeaderValue>) -> Option<HeaderValue> {
        let limits = &self.way.limits;
        let _turn = self.turn.lock().await;
        let _lock = self.store.lock(&self.server, &self.resource, limits.taken).await.ok()?;
        let login = self.read()?;
        let key = key_of(&login);
        if key != old {
            return key;
        }
        let http = self.way.open();
        let renewed = renew(&http, limits, &login).await;
        http.close().await;
        match renewed {
            Ok(login) => {
                // If the login can't be stored, the token still serves this process's request.
                let _ = self.store.write(&login);
                key_of(&login)
            }
            Err(NoGrant::Refused(_)) => {
                // The issuer will never accept this refresh token again.
                let _ = self.store.remove(&self.server, &self.resource);
                None
            }
            Err(_) => None,
        }
    }

    fn read(&self) -> Option<Login> {
        let login = self.store.read(&self.server, &self.resource)?;
        login.is_from(self.pinned.as_deref()).then_some(login)
    }
}

fn key_of(login: &Login) -> Option<HeaderValue> {
    let mut key = HeaderValue::from_str(&format!("Bearer {}", login.access_token)).ok()?;
    key.set_sensitive(true);
    Some(key)
}
