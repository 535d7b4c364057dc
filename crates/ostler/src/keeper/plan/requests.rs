//! Requests for instances: granting, queueing, withdrawing and releasing leases.
//!
//! A request gets the least used ready instance of its pool. If that instance is at its limit of concurrent calls
//! and the pool may grow, the request waits for a new instance instead; if the pool may not grow, it shares the busy
//! one. A granted ticket becomes the number of the lease.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use super::{AcquireError, Action, Manner, MemberState, Plan, Purpose, Waiter};
use crate::keeper::cause::{Cause, Fault};
use crate::keeper::event::What;
use crate::keeper::key::{Caller, Demand, Key, Whose};
use crate::keeper::principal::Principal;

/// A caller's request for an instance of a server.
#[derive(Debug)]
pub(in crate::keeper) struct AcquireRequest<'a> {
    pub(in crate::keeper) server: &'a str,
    pub(in crate::keeper) demand: &'a Demand,
    pub(in crate::keeper) caller: &'a Arc<Caller>,
    pub(in crate::keeper) purpose: Purpose,
}

/// Outcome of an [`AcquireRequest`].
#[derive(Debug, PartialEq, Eq)]
pub(in crate::keeper) enum AcquireDecision {
    /// The request has a lease on this instance.
    Granted { number: u64, lease: u64 },
    /// The request waits; [`Action::Grant`] or [`Action::Refuse`] answers the ticket.
    Queued { ticket: u64 },
}

impl Plan {
    /// Grants a lease at once, queues the request, or refuses it.
    pub(in crate::keeper) fn acquire(
        &mut self,
        request: &AcquireRequest<'_>,
        now: Instant,
    ) -> Result<AcquireDecision, AcquireError> {
        let key = self.key_of(request)?;
        let principal = &request.caller.who.principal;
        self.has_named_principals |= *principal != Principal::default();
        self.settle_profile(&key, request.demand);
        self.replace_suspects(&key);
        self.adopt_orphans(&key);
        // A ticket becomes the number of the lease.
        let ticket = self.next_number();
        let waiter = Waiter {
            ticket,
            caller: Arc::clone(request.caller),
            purpose: request.purpose,
            since: now,
            deadline: (request.purpose == Purpose::Call).then(|| now + self.caps.queue_timeout),
            has_left: false,
            is_undivided: request.demand.is_undivided,
        };
        if let Some(number) = self.choose(&key, request, now) {
            self.lend(number, &waiter, now);
            return Ok(AcquireDecision::Granted { number, lease: ticket });
        }
        self.refuse_hopeless(&key, request, now)?;
        self.pools.entry(key.clone()).or_default().waiters.push_back(waiter);
        self.tell(0, What::Queued { key: key.clone(), by: request.caller.who.clone() });
        self.requeue(&key);
        self.pump(now);
        Ok(AcquireDecision::Queued { ticket })
    }

    /// Grants a lease on a ready instance, if there is one. Never starts an instance.
    pub(in crate::keeper) fn peek(
        &mut self,
        request: &AcquireRequest<'_>,
        now: Instant,
    ) -> Option<(u64, u64)> {
        let key = self.key_of(request).ok()?;
        let number = self.least_used(&key).filter(|number| self.is_trusted(*number))?;
        let lease = self.next_number();
        self.members.get_mut(&number)?.lend(lease, request.caller, now);
        Some((number, lease))
    }

    /// Whether there is a ready instance without calls, or one can be started now.
    pub(in crate::keeper) fn has_undivided(
        &mut self,
        request: &AcquireRequest<'_>,
        now: Instant,
    ) -> bool {
        let Ok(key) = self.key_of(request) else { return false };
        let least_used = self.least_used(&key).and_then(|number| self.members.get(&number));
        let principal = &request.caller.who.principal;
        least_used.is_none_or(|member| member.calls() == 0)
            || self.can_grow(&key) && self.obstacle(&key, principal, request.purpose, now).is_none()
    }

    /// Withdraws a queued request.
    pub(in crate::keeper) fn withdraw(&mut self, ticket: u64, now: Instant) {
        let keys: Vec<Key> = self.pools.keys().cloned().collect();
        for key in keys {
            let Some(pool) = self.pools.get_mut(&key) else { continue };
            let before = pool.waiters.len();
            pool.waiters.retain(|waiter| waiter.ticket != ticket);
            if pool.waiters.len() != before {
                self.abandon_if_unwanted(&key);
                return self.pump(now);
            }
        }
    }

    /// Releases a lease. An instance that was started for one call stops with it.
    pub(in crate::keeper) fn release(&mut self, number: u64, lease: u64, now: Instant) {
        let is_listing = self.release_listing(number, lease, now);
        let Some(member) = self.members.get_mut(&number) else { return };
        member.leases.remove(&lease);
        let is_for_one_call = matches!(member.key.whose, Whose::Lease(_));
        if is_for_one_call {
            self.retire(number, Cause::Returned, Manner::Now);
        }
        // An unused lease has protected its instance from eviction until now.
        if is_for_one_call || is_listing || self.is_short {
            self.pump(now);
        }
    }

    /// Stops an instance that has stopped answering, because a caller needs it now.
    pub(in crate::keeper) fn replace_if_suspect(&mut self, number: u64) {
        let Some(member) = self.members.get(&number) else { return };
        if member.is_ready() && member.usage.is_suspect() {
            let fault = Fault::Silent(member.server.limits.call);
            self.retire(number, Cause::Unhealthy(fault), Manner::Now);
        }
    }

    fn key_of(&mut self, request: &AcquireRequest<'_>) -> Result<Key, AcquireError> {
        if self.is_closing {
            return Err(AcquireError::KeeperClosed);
        }
        let unknown = || AcquireError::UnknownServer(request.server.to_owned());
        let (name, configured) = self.servers.get_key_value(request.server).ok_or_else(unknown)?;
        Ok(Key {
            server: Arc::clone(name),
            fingerprint: configured.fingerprint,
            whose: request
                .caller
                .whose(request.demand.sharing(configured.server.sharing), self.last_number + 1),
            profile: Arc::clone(&request.demand.profile),
        })
    }

    /// The instance that a request gets now; `None` if there is none, or a new one is better and can be started.
    fn choose(&mut self, key: &Key, request: &AcquireRequest<'_>, now: Instant) -> Option<u64> {
        let number = self.least_used(key)?;
        let member = self.members.get(&number)?;
        let is_free =
            if request.demand.is_undivided { member.calls() == 0 } else { member.is_free() };
        let is_enough = request.purpose == Purpose::Listing || is_free;
        let principal = &request.caller.who.principal;
        let obstacle = || self.obstacle(key, principal, request.purpose, now);
        let can_grow = || self.can_grow(key) && obstacle().is_none();
        (is_enough || !can_grow()).then_some(number)
    }

    fn replace_suspects(&mut self, key: &Key) {
        let members = self.pools.get(key).map(|pool| pool.members.clone()).unwrap_or_default();
        for number in members {
            self.replace_if_suspect(number);
        }
    }

    fn is_trusted(&self, number: u64) -> bool {
        self.members.get(&number).is_some_and(|member| !member.usage.is_suspect())
    }

    pub(super) fn least_used(&self, key: &Key) -> Option<u64> {
        let members = self.pools.get(key)?.members.iter();
        let ready = members.filter_map(|number| Some((*number, self.members.get(number)?)));
        let ready = ready.filter(|(_, member)| member.is_ready());
        ready.min_by_key(|(_, m)| (m.calls(), m.leases.len())).map(|(number, _)| number)
    }

    fn refuse_hopeless(
        &mut self,
        key: &Key,
        request: &AcquireRequest<'_>,
        now: Instant,
    ) -> Result<(), AcquireError> {
        // A start under way may succeed, even if it was begun for another principal.
        if self.pools.get(key).is_none_or(|pool| !self.is_starting(pool)) {
            self.refuse_backing_off(key, request, now)?;
        }
        self.make_room_in_queue(key, request)
    }

    /// Grants ready instances to waiters, up to each instance's limit of concurrent calls.
    pub(super) fn serve_waiters(&mut self, key: &Key, now: Instant) {
        loop {
            let Some(number) = self.least_used(key) else { return };
            let Some(member) = self.members.get(&number) else { return };
            // A waiter is about to call, so each new lease counts as a call.
            let waiting_here = member.calls().max(member.leases.len());
            let most = member.server.max_concurrency.map_or(usize::MAX, std::num::NonZero::get);
            let first = self.pools.get(key).and_then(|pool| pool.waiters.front());
            let most = if first.is_some_and(|first| first.is_undivided) { 1 } else { most };
            if waiting_here >= most && self.can_grow(key) {
                return self.requeue(key);
            }
            let Some(waiter) = self.pools.get_mut(key).and_then(|p| p.waiters.pop_front()) else {
                return;
            };
            self.grant(number, &waiter, now);
        }
    }

    /// Gives a waiter its lease and answers its ticket.
    pub(super) fn grant(&mut self, number: u64, waiter: &Waiter, now: Instant) {
        self.lend(number, waiter, now);
        self.actions.push(Action::Grant { ticket: waiter.ticket, number });
    }

    /// A start for this principal has failed: refuses its waiters, unless another instance is ready.
    pub(super) fn refuse_waiters(
        &mut self,
        key: &Key,
        principal: &Principal,
        error: &AcquireError,
        now: Instant,
    ) {
        if self.least_used(key).is_some() {
            return self.serve_waiters(key, now);
        }
        let Some(pool) = self.pools.get_mut(key) else { return };
        let waiters = std::mem::take(&mut pool.waiters);
        let (refused, others): (VecDeque<_>, _) =
            waiters.into_iter().partition(|waiter| waiter.caller.who.principal == *principal);
        pool.waiters = others;
        for waiter in refused {
            self.actions.push(Action::Refuse { ticket: waiter.ticket, error: error.clone() });
        }
    }

    pub(super) fn refuse_if(&mut self, error: &AcquireError, fits: impl Fn(&Waiter) -> bool) {
        let keys: Vec<Key> = self.pools.keys().cloned().collect();
        for key in keys {
            let Some(pool) = self.pools.get_mut(&key) else { continue };
            let refused: Vec<u64> =
                pool.waiters.iter().filter(|waiter| fits(waiter)).map(|w| w.ticket).collect();
            pool.waiters.retain(|waiter| !refused.contains(&waiter.ticket));
            for ticket in &refused {
                self.actions.push(Action::Refuse { ticket: *ticket, error: error.clone() });
            }
            if !refused.is_empty() {
                self.abandon_if_unwanted(&key);
            }
        }
    }

    /// Stops the start of a key that has no waiters left.
    fn abandon_if_unwanted(&mut self, key: &Key) {
        let Some(pool) = self.pools.get(key).filter(|pool| pool.waiters.is_empty()) else { return };
        for number in pool.members.clone() {
            if self.members.get(&number).is_some_and(|member| member.state == MemberState::Starting)
            {
                self.retire(number, Cause::Abandoned, Manner::Now);
            }
        }
        if self.pools.get(key).is_some_and(|pool| pool.members.is_empty()) {
            self.pools.remove(key);
        }
    }
}
