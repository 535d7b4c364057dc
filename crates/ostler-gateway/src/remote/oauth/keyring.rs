//! The key to a server, for all who speak with it.

use std::sync::Arc;

use hyper::header::HeaderValue;
use tokio::sync::Mutex;

use super::grant::{NoGrant, renew};
use super::store::{Login, Store};
use crate::remote::http::Way;

/// The key to one server. What it holds is on disk, so that a login counts from the moment of its end.
#[derive(Clone, Debug)]
pub(crate) struct Keyring {
    store: Store,
    server: String,
    resource: String,
    /// The only issuer whose logins count, if the configuration names one.
    pinned: Option<String>,
    way: Way,
    /// Only one fetches a new key; the others find it.
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

    /// The key, if there is one. One that is about to be of no use is renewed before.
    pub(crate) async fn key(&self) -> Option<HeaderValue> {
        let login = self.read()?;
        let key = key_of(&login);
        if !login.is_stale() || login.refresh_token.is_none() {
            return key;
        }
        // Whether it is really of no use is for the server to say.
        self.newer(key.as_ref()).await.or(key)
    }

    /// Another key than this one, which was not taken.
    pub(crate) async fn newer(&self, old: Option<&HeaderValue>) -> Option<HeaderValue> {
        let (keyring, old) = (self.clone(), old.cloned());
        // Also if nobody waits any more: a refresh token that is used and not replaced is the last one.
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
                // A key that can't be kept is good for now.
                let _ = self.store.write(&login);
                key_of(&login)
            }
            Err(NoGrant::Refused(_)) => {
                // It will never be taken again.
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
