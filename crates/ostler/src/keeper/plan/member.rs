//! An instance, as far as the plan is concerned.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::listing::Listings;
use crate::keeper::cause::Cause;
use crate::keeper::config::Server;
use crate::keeper::key::{Caller, Key};
use crate::keeper::principal::Principal;
use crate::keeper::usage::Usage;

/// Who has just got a lease has this long to begin to use it before the place is given to others.
const RESERVATION: Duration = Duration::from_secs(1);

/// Where it is in its life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::keeper) enum MemberState {
    /// Not to be used yet.
    Starting,
    /// To be used.
    Ready,
    /// On its way out.
    Leaving(Cause),
    /// Something of it may be left.
    Unverified,
}

/// An instance and who has a right to it.
#[derive(Debug)]
pub(in crate::keeper) struct Member {
    pub(in crate::keeper) key: Key,
    pub(in crate::keeper) server: Arc<Server>,
    pub(in crate::keeper) state: MemberState,
    pub(in crate::keeper) usage: Arc<Usage>,
    pub(in crate::keeper) leases: BTreeMap<u64, Arc<Caller>>,
    pub(in crate::keeper) listings: Listings,
    /// For whom it was started.
    pub(in crate::keeper) by: Arc<Caller>,
    pub(in crate::keeper) since: Instant,
    pub(in crate::keeper) ready: Option<Instant>,
    /// Its driver has begun to stop it: calls in flight are not waited for any more.
    pub(in crate::keeper) is_stopping: bool,
    /// Until when it is kept for those who have a lease and have not used it yet.
    pub(in crate::keeper) reserved_until: Option<Instant>,
}

impl Member {
    /// The principal that it was started for.
    pub(in crate::keeper) fn principal(&self) -> &Principal {
        &self.by.who.principal
    }

    pub(super) fn is_ready(&self) -> bool {
        self.state == MemberState::Ready
    }

    /// Whether it is or will be of use.
    pub(super) fn stays(&self) -> bool {
        matches!(self.state, MemberState::Starting | MemberState::Ready)
    }

    pub(super) fn is_leaving(&self) -> bool {
        matches!(self.state, MemberState::Leaving(_))
    }

    /// Whether it can take another call now.
    pub(super) fn is_free(&self) -> bool {
        self.server.max_concurrency.is_none_or(|most| self.calls() < most.get())
    }

    /// How many callers use it now.
    pub(in crate::keeper) fn calls(&self) -> usize {
        self.usage.count().saturating_sub(self.listings.count())
    }

    /// Whether its place may be given to others when nobody uses it.
    pub(super) fn is_evictable(&self) -> bool {
        let is_idle = self.is_ready() && self.usage.count() == 0;
        // Else whoever gets it loses it again before the first call, for ever.
        let is_reserved = self.reserved_until.is_some() && self.usage.is_reserved();
        is_idle && self.server.limits.idle.is_some() && !is_reserved
    }

    /// Keeps it for a lease that was lent and not used yet.
    pub(super) fn reserve(&mut self, now: Instant) {
        self.usage.reserve();
        self.reserved_until = Some(now + RESERVATION);
    }

    pub(super) fn uptime(&self, now: Instant) -> Duration {
        self.ready.map_or(Duration::ZERO, |ready| now.saturating_duration_since(ready))
    }

    /// For people of this principal.
    pub(super) fn describe_to(&self, reader: &Principal) -> String {
        let users = self.leases.values().map(|caller| &caller.who);
        let users = users.filter(|who| reader.may_know(&who.principal));
        let mut users: Vec<String> = users.map(ToString::to_string).collect();
        users.dedup();
        match (&self.state, users.is_empty()) {
            (MemberState::Leaving(cause), _) => format!("{} (ending: {cause})", self.key),
            (MemberState::Unverified, _) => format!("{} (not proven to be gone)", self.key),
            (_, true) => self.key.to_string(),
            (_, false) => format!("{}, used by {}", self.key, users.join(" and ")),
        }
    }
}
