//! The sessions of all clients on HTTP.
//!
//! Their number is limited, for the gateway and, if the configuration says so, for each principal. When there are too
//! many, the principal that has most of them loses the one whose client has been away for the longest. A principal never
//! loses a session to one that has as many or more.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::sync::{Arc, Mutex};

use ostler::keeper::Principal;
use rustix::rand::{GetRandomFlags, getrandom};
use tokio_util::task::TaskTracker;

use super::limits::Limits;
use super::refusal::Refusal;
use super::stay::{Arrival, Stay};
use crate::house::{House, Pass};
use crate::mutex::lock;

/// All stays.
#[derive(Debug, Default)]
pub(super) struct Lobby {
    state: Mutex<State>,
    /// Each has one.
    tasks: TaskTracker,
}

#[derive(Debug, Default)]
struct State {
    stays: HashMap<u128, Arc<Stay>>,
    /// How many each principal has; at least one.
    counts: HashMap<Principal, usize>,
}

impl Lobby {
    /// A stay for a client that has come in.
    pub(super) fn open(
        self: &Arc<Self>,
        arrival: Arrival,
        limits: Limits,
        house: &Arc<House>,
    ) -> Result<Arc<Stay>, Refusal> {
        let visitor = arrival.visitor.clone();
        let stay = Arc::new(Stay::new(draw().map_err(Refusal::NoId)?, arrival, limits));
        {
            let mut state = lock(&self.state);
            if let Some(ended) = state.make_room(&stay, limits.sessions)? {
                ended.end();
            }
            state.insert(&stay);
        }
        // It may have closed since somebody looked.
        if house.closed().is_cancelled() {
            stay.end();
        }
        let (lobby, house, own) = (Arc::clone(self), Arc::clone(house), Arc::clone(&stay));
        self.tasks.spawn(async move {
            own.live(visitor, &house).await;
            lobby.forget(&own);
        });
        Ok(stay)
    }

    /// The stay with this id, if it is one of this pass and of this server.
    pub(super) fn find(
        &self,
        id: &str,
        pass: &Arc<Pass>,
        server: Option<&str>,
    ) -> Option<Arc<Stay>> {
        let is_written_so = id.len() == 32 && !id.starts_with('+');
        let id = u128::from_str_radix(id, 16).ok().filter(|_| is_written_so)?;
        let is_its =
            |stay: &&Arc<Stay>| Arc::ptr_eq(&stay.pass, pass) && stay.server.as_deref() == server;
        lock(&self.state).stays.get(&id).filter(is_its).cloned()
    }

    /// Nobody finds it any more.
    pub(super) fn forget(&self, stay: &Stay) {
        lock(&self.state).remove(stay.id);
        stay.end();
    }

    /// Ends all, and waits until they have.
    pub(super) async fn close(&self) {
        lock(&self.state).stays.values().for_each(|stay| stay.end());
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl State {
    /// Takes a stay out if there are too many for a new one.
    fn make_room(&mut self, new: &Stay, most: usize) -> Result<Option<Arc<Stay>>, Refusal> {
        let principal = &new.pass.principal;
        let own = self.counts.get(principal).copied().unwrap_or_default();
        let most_own = new.account().most_sessions();
        let found = if own >= most_own {
            Some(self.longest_away(principal).ok_or(Refusal::Sessions(most_own))?)
        } else if self.stays.len() >= most {
            Some(self.weakest(principal, own + 1).ok_or(Refusal::Full)?)
        } else {
            None
        };
        Ok(found.and_then(|id| self.remove(id)))
    }

    /// The stay that gives way to one of a principal that has so many then.
    fn weakest(&self, principal: &Principal, count: usize) -> Option<u128> {
        let (other, most) = self.counts.iter().max_by_key(|(_, count)| **count)?;
        if count >= *most {
            return self.longest_away(principal);
        }
        // Clients that are there give way last.
        let of_other = self.stays.values().filter(|stay| stay.pass.principal == *other);
        of_other.map(|stay| (stay.presence(), stay.id)).min().map(|(_, id)| id)
    }

    /// The one of a principal whose client has been away for the longest, if any is away.
    fn longest_away(&self, principal: &Principal) -> Option<u128> {
        let own = self.stays.values().filter(|stay| stay.pass.principal == *principal);
        own.filter_map(|stay| Some((stay.away_since()?, stay.id))).min().map(|(_, id)| id)
    }

    fn insert(&mut self, stay: &Arc<Stay>) {
        *self.counts.entry(stay.pass.principal.clone()).or_default() += 1;
        self.stays.insert(stay.id, Arc::clone(stay));
    }

    fn remove(&mut self, id: u128) -> Option<Arc<Stay>> {
        let stay = self.stays.remove(&id)?;
        if let Entry::Occupied(mut count) = self.counts.entry(stay.pass.principal.clone()) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
        Some(stay)
    }
}

/// Ends a stay when it is dropped.
#[derive(Debug)]
pub(super) struct Ending {
    pub(super) lobby: Arc<Lobby>,
    pub(super) stay: Arc<Stay>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.lobby.forget(&self.stay);
    }
}

/// As an id is written.
pub(super) fn written(id: u128) -> String {
    format!("{id:032x}")
}

fn draw() -> io::Result<u128> {
    let mut bytes = [0; 16];
    getrandom(&mut bytes, GetRandomFlags::empty())?;
    Ok(u128::from_be_bytes(bytes))
}
