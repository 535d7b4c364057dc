//! Listings: leases for asking a server which tools, prompts and resources it offers.
//!
//! A listing is requested on behalf of a caller but outlives it, because the next caller needs the result as well. So
//! a waiting listing is not refused when its caller's scope closes, and an instance that is being listed does not
//! stop with its scope. It stops when the last listing is released, unless a caller with an open scope may use it.
//! Calls come first: listings may fill only a part of each cap.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use super::{Manner, Member, MemberState, Plan, Waiter};
use crate::keeper::cause::Cause;
use crate::keeper::key::{Caller, Demand, Key};

/// What a request needs an instance for, the more urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::keeper) enum Purpose {
    /// To make calls.
    Call,
    /// To list what the server offers.
    Listing,
}

impl Purpose {
    /// The part of a cap on instances or containers that starts for this purpose may fill.
    pub(super) fn part_of(self, cap: usize) -> usize {
        match self {
            Self::Call => cap,
            Self::Listing => cap - cap / 4,
        }
    }

    /// Most simultaneous starts for this purpose, given the cap on all simultaneous starts.
    pub(super) fn part_of_starts(self, cap: usize) -> usize {
        match self {
            Self::Call => cap,
            Self::Listing => (cap / 2).max(1),
        }
    }
}

/// Open listings of one instance, by lease number.
#[derive(Debug, Default)]
pub(in crate::keeper) struct Listings {
    open: BTreeMap<u64, Listing>,
    /// A caller with an open scope may use the instance after the listing.
    is_wanted: bool,
    /// The scope that owns the instance has closed during the listing.
    is_orphaned: bool,
}

#[derive(Debug)]
struct Listing {
    caller: Arc<Caller>,
    has_left: bool,
}

impl Listings {
    pub(super) fn count(&self) -> usize {
        self.open.len()
    }

    fn add(&mut self, lease: u64, waiter: &Waiter) {
        let (caller, has_left) = (Arc::clone(&waiter.caller), waiter.has_left);
        self.open.insert(lease, Listing { caller, has_left });
    }

    /// Removes a listing. Returns whether there was one.
    fn remove(&mut self, lease: u64) -> bool {
        let removed = self.open.remove(&lease);
        self.is_wanted |= removed.as_ref().is_some_and(|listing| !listing.has_left);
        removed.is_some()
    }

    /// A caller with an open scope requests the instance.
    fn adopt(&mut self) {
        self.is_orphaned = false;
    }

    fn leave(&mut self, scope: u64) {
        for listing in self.open.values_mut() {
            listing.has_left |= listing.caller.is_within(scope);
        }
    }
}

impl Member {
    /// Gives a caller a lease.
    pub(super) fn lend(&mut self, lease: u64, caller: &Arc<Caller>, now: Instant) {
        self.leases.insert(lease, Arc::clone(caller));
        self.listings.is_wanted = true;
        self.reserve(now);
    }

    /// Gives a listing a lease. The listing counts as a use, so the instance is neither idle nor evicted meanwhile.
    fn lend_to_list(&mut self, waiter: &Waiter, now: Instant) {
        if self.usage.begin(now) {
            self.listings.add(waiter.ticket, waiter);
        }
        self.reserve(now);
    }

    /// Whether the instance has no more reason to stay: its listings are done and no open scope wants it.
    fn is_listed_for_nobody(&self) -> bool {
        let Listings { open, is_wanted, is_orphaned } = &self.listings;
        let is_unwanted = !*is_wanted && self.leases.is_empty();
        open.is_empty() && (*is_orphaned || is_unwanted)
    }
}

impl Plan {
    /// Gives a waiter its lease on an instance.
    pub(super) fn lend(&mut self, number: u64, waiter: &Waiter, now: Instant) {
        let Some(member) = self.members.get_mut(&number) else { return };
        match waiter.purpose {
            Purpose::Call => member.lend(waiter.ticket, &waiter.caller, now),
            Purpose::Listing => member.lend_to_list(waiter, now),
        }
    }

    /// Keeps the instances of this key beyond the closed scope that they were listed for: a caller wants them.
    pub(super) fn adopt_orphans(&mut self, key: &Key) {
        let Some(pool) = self.pools.get(key) else { return };
        for number in &pool.members {
            if let Some(member) = self.members.get_mut(number) {
                member.listings.adopt();
            }
        }
    }

    /// Moves instances that were started for a listing, under an incomplete profile, to the first caller that knows the
    /// complete one. Does nothing if that caller's key has instances or callers already use the incomplete one.
    pub(super) fn settle_profile(&mut self, key: &Key, demand: &Demand) {
        let Some(unsettled) = &demand.unsettled else { return };
        let from = Key { profile: Arc::clone(unsettled), ..key.clone() };
        let stays = |number: &u64| self.members.get(number).is_some_and(Member::stays);
        let has_any = |key: &Key| self.pools.get(key).is_some_and(|p| p.members.iter().any(stays));
        if has_any(key) || !has_any(&from) || self.is_called(&from) {
            return;
        }
        let Some(pool) = self.pools.remove(&from) else { return };
        for number in &pool.members {
            self.members.get_mut(number).into_iter().for_each(|m| m.key = key.clone());
        }
        self.queue.retain(|queued| *queued != from);
        let settled = self.pools.entry(key.clone()).or_default();
        settled.members.extend(pool.members);
        settled.waiters.extend(pool.waiters);
    }

    /// Whether a caller holds a lease on an instance of this key, or waits for one.
    fn is_called(&self, key: &Key) -> bool {
        let Some(pool) = self.pools.get(key) else { return false };
        let is_lent = |number: &u64| self.members.get(number).is_some_and(|m| !m.leases.is_empty());
        let is_call = |waiter: &Waiter| waiter.purpose == Purpose::Call;
        pool.members.iter().any(is_lent) || pool.waiters.iter().any(is_call)
    }

    /// Marks the listings of a scope that is closing: their caller has left.
    pub(super) fn leave_listings(&mut self, scope: u64) {
        for waiter in self.pools.values_mut().flat_map(|pool| &mut pool.waiters) {
            waiter.has_left |= waiter.caller.is_within(scope);
        }
        for member in self.members.values_mut() {
            member.listings.leave(scope);
        }
    }

    /// Stops an instance with its scope, or after its listing. Returns whether it stops now.
    pub(super) fn retire_with_scope(&mut self, number: u64) -> bool {
        let Some(member) = self.members.get(&number) else { return false };
        if self.is_being_listed(member) {
            self.members.get_mut(&number).into_iter().for_each(|m| m.listings.is_orphaned = true);
            return false;
        }
        self.retire(number, Cause::ScopeClosed, Manner::Now);
        true
    }

    /// Whether a listing holds this instance or waits for its start.
    pub(in crate::keeper) fn is_being_listed(&self, member: &Member) -> bool {
        let waiters = self.pools.get(&member.key).map(|pool| pool.waiters.iter());
        let mut waiters = waiters.into_iter().flatten();
        member.listings.count() > 0
            || member.state == MemberState::Starting
                && waiters.any(|waiter| waiter.purpose == Purpose::Listing)
    }

    /// Number of starts that only listings wait for.
    pub(super) fn starts_for_listings(&self) -> usize {
        let is_for_listings = |member: &&Member| {
            let pool = self.pools.get(&member.key);
            let mut waiters = pool.into_iter().flat_map(|pool| &pool.waiters);
            waiters.all(|waiter| waiter.purpose == Purpose::Listing)
        };
        let starting = self.members.values().filter(|member| member.state == MemberState::Starting);
        starting.filter(is_for_listings).count()
    }

    /// Releases the lease of a listing. Returns whether it was one.
    pub(super) fn release_listing(&mut self, number: u64, lease: u64, now: Instant) -> bool {
        let Some(member) = self.members.get_mut(&number) else { return false };
        if !member.listings.remove(lease) {
            return false;
        }
        member.usage.end(now);
        if member.is_listed_for_nobody() {
            self.retire(number, Cause::Listed, Manner::Now);
        }
        true
    }
}
