//! The key to a server, for all who speak with it.

use std::sync::Arc;

use hyper::header::HeaderValue;
use tokio::sync::Mutex;

use super::grant::{NoGrant, renew};
use super::store::{Login, Store};
use crate::remote::http::Http;
use crate::remote::limits::RemoteLimits;

/// The key to one server. What it holds is on disk, so that a login counts from the moment of its end.
#[derive(Clone, Debug)]
pub(crate) struct Keyring {
    store: Store,
    server: String,
    resource: String,
    limits: RemoteLimits,
    /// Only one fetches a new key; the others find it.
    turn: Arc<Mutex<()>>,
}

impl Keyring {
    pub(crate) fn new(store: Store, server: &str, resource: String, limits: RemoteLimits) -> Self {
        Self { store, server: server.to_owned(), resource, limits, turn: Arc::default() }
    }

    /// The key, if there is one. One that is about to be of no use is renewed before.
    pub(crate) async fn key(&self, http: &Http) -> Option<HeaderValue> {
        let login = self.read()?;
        if !login.is_stale() {
            return key_of(&login);
        }
        let old = key_of(&login);
        // Whether it is really of no use is for the server to say.
        self.newer(old.as_ref(), http).await.or(old)
    }

    /// Another key than this one, which was not taken.
    pub(crate) async fn newer(
        &self,
        old: Option<&HeaderValue>,
        http: &Http,
    ) -> Option<HeaderValue> {
        let _turn = self.turn.lock().await;
        let locked = self.store.lock(&self.server, &self.resource, self.limits.taken).await;
        let _lock = locked.ok()?;
        let login = self.read()?;
        let key = key_of(&login);
        if key.as_ref() != old {
            return key;
        }
        match renew(http, &self.limits, &login).await {
            Ok(login) => {
                // A key that can't be kept is good for now; the old refresh token may be used up.
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
        self.store.read(&self.server, &self.resource)
    }
}

fn key_of(login: &Login) -> Option<HeaderValue> {
    let mut key = HeaderValue::from_str(&format!("Bearer {}", login.access_token)).ok()?;
    key.set_sensitive(true);
    Some(key)
}
