//! Invariants of a plan, checked by tests after every step.

use std::time::{Duration, Instant};

use super::shares::Candidate;
use super::{Member, MemberState, Obstacle, Plan, Purpose};
use crate::keeper::key::Key;
use crate::keeper::principal::Principal;

/// Resolution of the runtime's timers.
const TICK: Duration = Duration::from_millis(2);

/// A queued key and one principal that waits for it.
#[derive(Clone, Debug)]
pub(in crate::keeper) struct QueuedKey {
    pub(in crate::keeper) key: Key,
    pub(in crate::keeper) principal: Principal,
    pub(in crate::keeper) purpose: Purpose,
    /// Lowest ticket among the principal's most urgent waiters.
    pub(in crate::keeper) first: u64,
    pub(in crate::keeper) waiters: usize,
    pub(in crate::keeper) obstacle: Option<Obstacle>,
}

impl Plan {
    /// Whether the plan has neither instances nor waiters.
    pub(in crate::keeper) fn is_empty(&self) -> bool {
        self.pools.is_empty() && self.members.is_empty()
    }

    pub(in crate::keeper) fn has_named_principals(&self) -> bool {
        self.has_named_principals
    }

    /// The principal's most urgent purpose for this key, and the lowest ticket with it.
    pub(in crate::keeper) fn first_waiter(
        &self,
        key: &Key,
        principal: &Principal,
    ) -> Option<(Purpose, u64)> {
        let waiters = self.pools.get(key)?.waiters.iter();
        let own = waiters.filter(|waiter| waiter.caller.who.principal == *principal);
        own.map(|waiter| (waiter.purpose, waiter.ticket)).min()
    }

    pub(in crate::keeper) fn queued(&self, now: Instant) -> Vec<QueuedKey> {
        let waiting = |one: &Candidate| {
            let waiters = self.pools.get(&one.key)?.waiters.iter();
            Some(waiters.filter(|waiter| waiter.caller.who.principal == one.principal).count())
        };
        let queued = self.candidates().into_iter().map(|one| {
            let waiters = waiting(&one).unwrap_or(0);
            let obstacle = self.obstacle(&one.key, &one.principal, one.purpose, now);
            let Candidate { key, principal, purpose, ticket } = one;
            QueuedKey { key, principal, purpose, first: ticket, waiters, obstacle }
        });
        queued.collect()
    }

    /// Describes the first violated invariant.
    pub(in crate::keeper) fn audit(&self, now: Instant) -> Result<(), String> {
        self.audit_books()?;
        self.audit_pools()?;
        self.audit_queue(now)
    }

    fn audit_books(&self) -> Result<(), String> {
        let books = self.books();
        let unverified =
            self.members.values().filter(|m| m.state == MemberState::Unverified).count();
        let live = self.members.len() - unverified;
        if !books.balance() || books.live != live as u64 || books.unverified < unverified as u64 {
            return Err(format!("{books:?} with {live} live and {unverified} unverified"));
        }
        if self.is_closing && self.members.values().any(Member::stays) {
            return Err("an instance stays although the keeper is closing".into());
        }
        Ok(())
    }

    fn audit_pools(&self) -> Result<(), String> {
        for (key, pool) in &self.pools {
            let members = || pool.members.iter().filter_map(|number| self.members.get(number));
            let starting = members().filter(|m| m.state == MemberState::Starting).count();
            let waits = !pool.waiters.is_empty();
            let queued = self.queue.iter().filter(|one| *one == key).count();
            let tickets: Vec<u64> = pool.waiters.iter().map(|waiter| waiter.ticket).collect();
            let wrong = match () {
                () if members().any(|m| m.key != *key) => "a member of another key",
                () if members().count() != pool.members.len() => "a member that is forgotten",
                () if pool.members.is_empty() && !waits => "an empty pool was not removed",
                () if starting > 1 => "started twice at once",
                () if starting == 1 && !waits => "starting without a waiter",
                () if starting == 0 && waits && queued != 1 => "has waiters but is not queued",
                () if queued > 1 => "queued twice",
                () if !tickets.is_sorted() => "its waiters are out of order",
                () if self.is_closing && waits => "has waiters although the keeper is closing",
                () if waits && !self.servers.contains_key(&key.server) => "an unknown server",
                () => continue,
            };
            return Err(format!(
                "{key}: {wrong}; waiting: {tickets:?}, members: {:?}",
                pool.members
            ));
        }
        let pooled: usize = self.pools.values().map(|pool| pool.members.len()).sum();
        if pooled == self.members.len() { Ok(()) } else { Err("a member without a pool".into()) }
    }

    /// Every queued key has an obstacle, and no idle instance could remove it.
    fn audit_queue(&self, now: Instant) -> Result<(), String> {
        // A backoff that ended within the last tick has not been noticed by the timer task yet.
        let before = now.checked_sub(TICK).unwrap_or(now);
        let idle = |fits: &dyn Fn(&Member) -> bool| {
            let leaving = self.members.values().any(|m| m.is_leaving() && fits(m));
            !leaving && self.members.values().any(|m| m.is_evictable() && fits(m))
        };
        for QueuedKey { key, principal, purpose, obstacle, .. } in self.queued(now) {
            if self.obstacle(&key, &principal, purpose, before) == Some(Obstacle::Backoff) {
                continue;
            }
            let own = self.own_obstacle(&key, &principal, now);
            let need = self.need(&key, &principal, purpose).filter(|_| own.is_none());
            let wrong = match obstacle {
                None => "queued without an obstacle",
                Some(_) if need.is_some_and(|need| idle(&|m| need.is_met_by(m))) => {
                    "an idle instance could make room"
                }
                Some(_) if self.least_used(&key).is_some() => "a ready instance could be shared",
                Some(Obstacle::Backoff) if self.next_wake().is_none() => "no timer for its backoff",
                Some(_) => continue,
            };
            return Err(format!("{key}: {wrong}"));
        }
        Ok(())
    }
}
