//! An instance as the plan sees it: its state, its leases and whether it may be evicted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::listing::Listings;
use crate::keeper::cause::Cause;
use crate::keeper::config::Server;
use crate::keeper::key::{Caller, Key};
use crate::keeper::principal::Principal;
use crate::keeper::usage::Usage;

/// How long an instance is protected from eviction for a new lease that has not been used yet.
const RESERVATION: Duration = Duration::from_secs(1);

/// Lifecycle of an instance, as the plan sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::keeper) enum MemberState {
    /// Its driver has not reported it ready.
    Starting,
    /// It takes calls.
    Ready,
    /// It takes no more calls and is being stopped.
    Leaving(Cause),
    /// Processes or containers of it may be left.
    Unverified,
}

/// An instance with its leases.
#[derive(Debug)]
pub(in crate::keeper) struct Member {
    pub(in crate::keeper) key: Key,
    pub(in crate::keeper) server: Arc<Server>,
    pub(in crate::keeper) state: MemberState,
    pub(in crate::keeper) usage: Arc<Usage>,
    pub(in crate::keeper) leases: BTreeMap<u64, Arc<Caller>>,
    pub(in crate::keeper) listings: Listings,
    /// The caller that it was started for.
    pub(in crate::keeper) by: Arc<Caller>,
    pub(in crate::keeper) since: Instant,
    pub(in crate::keeper) ready: Option<Instant>,
    /// Its driver is past draining and stops it.
    pub(in crate::keeper) is_stopping: bool,
    /// End of the protection from eviction for leases that have not been used yet.
    pub(in crate::keeper) reserved_until: Option<Instant>,
}

impl Member {
    /// The principal of the caller that it was started for.
    pub(in crate::keeper) fn principal(&self) -> &Principal {
        &self.by.who.principal
    }

    pub(super) fn is_ready(&self) -> bool {
        self.state == MemberState::Ready
    }

    /// Whether it takes calls, or will when it is ready.
    pub(super) fn stays(&self) -> bool {
        matches!(self.state, MemberState::Starting | MemberState::Ready)
    }

    pub(super) fn is_leaving(&self) -> bool {
        matches!(self.state, MemberState::Leaving(_))
    }

    /// Whether it is below its limit on concurrent calls.
    pub(super) fn is_free(&self) -> bool {
        self.server.max_concurrency.is_none_or(|most| self.calls() < most.get())
    }

    /// Number of uses under way, without listings.
    pub(in crate::keeper) fn calls(&self) -> usize {
        self.usage.count().saturating_sub(self.listings.count())
    }

    /// Whether it is idle and may be stopped to free its slot.
    pub(super) fn is_evictable(&self) -> bool {
        let is_idle = self.is_ready() && self.usage.count() == 0;
        // Otherwise a new lease could lose its instance before the first call, again and again.
        let is_reserved = self.reserved_until.is_some() && self.usage.is_reserved();
        is_idle && self.server.limits.idle.is_some() && !is_reserved
    }

    /// Protects it from eviction until the new lease is used or the reservation ends.
    pub(super) fn reserve(&mut self, now: Instant) {
        self.usage.reserve();
        self.reserved_until = Some(now + RESERVATION);
    }

    pub(super) fn uptime(&self, now: Instant) -> Duration {
        self.ready.map_or(Duration::ZERO, |ready| now.saturating_duration_since(ready))
    }

    /// One line for error messages, without users of other principals unless `reader` may know them.
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
