//! All sessions of HTTP clients.
//!
//! Their number is limited for the gateway and, if the configuration says so, for each principal. At the limit of a
//! principal, a new session replaces its own session whose client has been absent longest; if none is absent, the new
//! one is refused. At the limit of the gateway, it replaces a session of the principal with the most sessions. A
//! principal never loses a session to one that has as many or more. Each session runs in a task of its own.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::sync::{Arc, Mutex};

use ostler::keeper::Principal;
use rustix::rand::{GetRandomFlags, getrandom};
use tokio_util::task::TaskTracker;

use super::limits::Limits;
use super::mcp_session::{McpSession, NewSession};
use super::refusal::Refusal;
use crate::gateway::{Credential, Gateway};
use crate::mutex::lock;

/// All sessions of the HTTP front, by id.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    state: Mutex<State>,
    /// One task for each session.
    tasks: TaskTracker,
}

#[derive(Debug, Default)]
struct State {
    sessions: HashMap<u128, Arc<McpSession>>,
    /// Number of sessions for each principal; an entry is at least 1.
    counts: HashMap<Principal, usize>,
}

impl Sessions {
    /// Opens a session for an admitted client, and starts its task.
    pub(super) fn open(
        self: &Arc<Self>,
        new_session: NewSession,
        limits: Limits,
        gateway: &Arc<Gateway>,
    ) -> Result<Arc<McpSession>, Refusal> {
        let spec = new_session.spec.clone();
        let session =
            Arc::new(McpSession::new(draw().map_err(Refusal::NoId)?, new_session, limits));
        {
            let mut state = lock(&self.state);
            if let Some(ended) = state.make_room(&session, limits.sessions)? {
                ended.end();
            }
            state.insert(&session);
        }
        // The gateway may have closed since the request was admitted.
        if gateway.closed().is_cancelled() {
            session.end();
        }
        let (sessions, gateway, own) =
            (Arc::clone(self), Arc::clone(gateway), Arc::clone(&session));
        self.tasks.spawn(async move {
            own.run(spec, &gateway).await;
            sessions.forget(&own);
        });
        Ok(session)
    }

    /// Session with this id, if this credential opened it for this server.
    pub(super) fn find(
        &self,
        id: &str,
        credential: &Arc<Credential>,
        server: Option<&str>,
    ) -> Option<Arc<McpSession>> {
        let is_written_so = id.len() == 32 && !id.starts_with('+');
        let id = u128::from_str_radix(id, 16).ok().filter(|_| is_written_so)?;
        let is_its = |session: &&Arc<McpSession>| {
            Arc::ptr_eq(&session.credential, credential) && session.server.as_deref() == server
        };
        lock(&self.state).sessions.get(&id).filter(is_its).cloned()
    }

    /// Removes a session from the registry and ends it.
    pub(super) fn forget(&self, session: &McpSession) {
        lock(&self.state).remove(session.id);
        session.end();
    }

    /// Ends all sessions, and waits for their tasks.
    pub(super) async fn close(&self) {
        lock(&self.state).sessions.values().for_each(|session| session.end());
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl State {
    /// Removes a session if a limit leaves no room for a new one. The caller has to end the removed one.
    fn make_room(
        &mut self,
        new: &McpSession,
        most: usize,
    ) -> Result<Option<Arc<McpSession>>, Refusal> {
        let principal = &new.credential.principal;
        let own = self.counts.get(principal).copied().unwrap_or_default();
        let most_own = new.account().most_sessions();
        let found = if own >= most_own {
            Some(self.longest_away(principal).ok_or(Refusal::Sessions(most_own))?)
        } else if self.sessions.len() >= most {
            Some(self.weakest(principal, own + 1).ok_or(Refusal::Full)?)
        } else {
            None
        };
        Ok(found.and_then(|id| self.remove(id)))
    }

    /// Session that is replaced by a new one of a principal which then has `count` sessions.
    fn weakest(&self, principal: &Principal, count: usize) -> Option<u128> {
        let (other, most) = self.counts.iter().max_by_key(|(_, count)| **count)?;
        if count >= *most {
            return self.longest_away(principal);
        }
        // Sessions of absent clients are replaced first.
        let of_other =
            self.sessions.values().filter(|session| session.credential.principal == *other);
        of_other.map(|session| (session.presence(), session.id)).min().map(|(_, id)| id)
    }

    /// Session of this principal whose client has been absent longest; `None` if all are present.
    fn longest_away(&self, principal: &Principal) -> Option<u128> {
        let own =
            self.sessions.values().filter(|session| session.credential.principal == *principal);
        own.filter_map(|session| Some((session.away_since()?, session.id))).min().map(|(_, id)| id)
    }

    fn insert(&mut self, session: &Arc<McpSession>) {
        *self.counts.entry(session.credential.principal.clone()).or_default() += 1;
        self.sessions.insert(session.id, Arc::clone(session));
    }

    fn remove(&mut self, id: u128) -> Option<Arc<McpSession>> {
        let session = self.sessions.remove(&id)?;
        if let Entry::Occupied(mut count) = self.counts.entry(session.credential.principal.clone())
        {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
        Some(session)
    }
}

/// Ends a session when it is dropped.
#[derive(Debug)]
pub(super) struct Ending {
    pub(super) sessions: Arc<Sessions>,
    pub(super) session: Arc<McpSession>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.sessions.forget(&self.session);
    }
}

/// Session id as clients see it: 32 hex digits.
pub(super) fn written(id: u128) -> String {
    format!("{id:032x}")
}

fn draw() -> io::Result<u128> {
    let mut bytes = [0; 16];
    getrandom(&mut bytes, GetRandomFlags::empty())?;
    Ok(u128::from_be_bytes(bytes))
}
