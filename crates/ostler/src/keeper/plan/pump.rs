//! Runs the start queue: starts what caps and backoff allow, and evicts idle instances for the rest.
//!
//! One pass refuses waiters whose deadline has passed, then offers each principal's queued starts in turn. A start
//! that lacks a slot becomes a [`BlockedStart`]. Waiters that remain share a busy instance if their pool has one.
//! Finally the pass evicts idle instances for the blocked starts, unless enough instances are stopping already; the
//! freed slots are used by the pass that follows their end.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Instant;

use super::listing::Listings;
use super::shares::{Candidate, Need};
use super::{AcquireError, Action, Manner, Member, MemberState, Obstacle, Plan, Purpose, Waiter};
use crate::keeper::cause::Cause;
use crate::keeper::event::What;
use crate::keeper::key::Key;
use crate::keeper::principal::Principal;
use crate::keeper::usage::Usage;

/// A queued key that lacks a slot. Meeting any one of its needs lets it start.
#[derive(Debug)]
struct BlockedStart {
    key: Key,
    needs: Vec<Need>,
}

impl Plan {
    /// Runs one pass over the queue. A key that waits for its own backoff or predecessor does not hold up the others.
    pub(super) fn pump(&mut self, now: Instant) {
        self.expire(now);
        self.failures.clear_expired(now);
        for member in self.members.values_mut() {
            member.reserved_until = member.reserved_until.filter(|until| *until > now);
        }
        let blocked = self.start_in_turn(now);
        self.serve_queued(now);
        self.is_short = !blocked.is_empty();
        self.make_room(blocked);
    }

    /// Starts what can start now. Returns the starts that lack a slot, the most urgent first.
    fn start_in_turn(&mut self, now: Instant) -> Vec<BlockedStart> {
        let mut blocked: Vec<BlockedStart> = Vec::new();
        let mut queues = self.queues();
        self.served.retain(|principal, _| queues.has(principal));
        while let Some(next) = queues.next(&self.served) {
            let Candidate { key, principal, purpose, .. } = next;
            if self.pools.get(&key).is_some_and(|pool| self.is_starting(pool)) {
                continue;
            }
            if self.own_obstacle(&key, &principal, now).is_some() {
                continue;
            }
            if let Some(need) = self.need(&key, &principal, purpose) {
                match blocked.iter_mut().find(|start| start.key == key) {
                    Some(start) => start.needs.push(need),
                    None => blocked.push(BlockedStart { key, needs: vec![need] }),
                }
            } else if !self.is_start_limited(&principal, purpose) {
                let number = self.start(&key, &principal, now);
                self.served.extend(number.map(|number| (principal.clone(), number)));
                queues.started(&principal);
                blocked.retain(|start| start.key != key);
            }
        }
        blocked
    }

    /// Gives the remaining waiters a busy instance of their pool, or keeps their key queued.
    fn serve_queued(&mut self, now: Instant) {
        for key in std::mem::take(&mut self.queue) {
            let Some(pool) = self.pools.get(&key).filter(|pool| !pool.waiters.is_empty()) else {
                continue;
            };
            if self.is_starting(pool) {
                continue;
            }
            // A busy instance is better than none.
            if self.least_used(&key).is_some() {
                self.serve_all(&key, now);
            } else {
                self.queue.push_back(key);
            }
        }
    }

    /// Queues a key that has waiters and no start under way.
    pub(super) fn requeue(&mut self, key: &Key) {
        let Some(pool) = self.pools.get(key).filter(|pool| !pool.waiters.is_empty()) else {
            return;
        };
        if !self.is_starting(pool) && !self.queue.contains(key) {
            self.queue.push_back(key.clone());
        }
    }

    /// What prevents the start of an instance of this key for this principal; `None` if nothing does.
    pub(super) fn obstacle(
        &self,
        key: &Key,
        principal: &Principal,
        purpose: Purpose,
        now: Instant,
    ) -> Option<Obstacle> {
        self.servers.get(&key.server)?;
        if let Some(own) = self.own_obstacle(key, principal, now) {
            return Some(own);
        }
        if let Some(need) = self.need(key, principal, purpose) {
            return Some(self.obstacle_of(&need, principal));
        }
        self.is_start_limited(principal, purpose).then_some(Obstacle::Starts)
    }

    /// The part of [`Plan::obstacle`] that no other instance's end can remove: backoff and predecessor.
    pub(super) fn own_obstacle(
        &self,
        key: &Key,
        principal: &Principal,
        now: Instant,
    ) -> Option<Obstacle> {
        if self.failures.until(key, principal, now).is_some() {
            return Some(Obstacle::Backoff);
        }
        let precedes = |m: &Member| !m.stays() && key.succeeds(&m.key);
        let is_preceded = key.whose.is_exclusive() && self.members.values().any(precedes);
        is_preceded.then_some(Obstacle::Predecessor)
    }

    /// Whether the pool of this key may start one more instance.
    pub(super) fn can_grow(&self, key: &Key) -> bool {
        let Some(configured) = self.servers.get(&key.server) else { return false };
        let Some(pool) = self.pools.get(key) else { return true };
        let stays = |number: &&u64| self.members.get(number).is_some_and(Member::stays);
        let count = pool.members.iter().filter(stays).count();
        count < configured.server.max_instances.get() && !self.is_starting(pool)
    }

    /// Starts an instance for the principal's first waiter. Returns its number.
    fn start(&mut self, key: &Key, principal: &Principal, now: Instant) -> Option<u64> {
        let server = Arc::clone(&self.servers.get(&key.server)?.server);
        let mut waiters = self.pools.get(key)?.waiters.iter();
        let first = waiters.find(|waiter| waiter.caller.who.principal == *principal)?;
        let by = Arc::clone(&first.caller);
        let values = by.surroundings.as_ref().and_then(|its| its.of(&key.server));
        let run =
            values.map_or_else(|| Arc::clone(&server), |values| Arc::new(server.amid(values)));
        let number = self.next_number();
        let usage = Arc::new(Usage::new(now));
        let member = Member {
            key: key.clone(),
            server,
            state: MemberState::Starting,
            usage: Arc::clone(&usage),
            leases: std::collections::BTreeMap::new(),
            listings: Listings::default(),
            by: Arc::clone(&by),
            since: now,
            ready: None,
            is_stopping: false,
            reserved_until: None,
        };
        self.members.insert(number, member);
        self.pools.entry(key.clone()).or_default().members.push(number);
        self.books.start();
        self.tell(number, What::Starting { key: key.clone(), by: by.who.clone() });
        self.actions.push(Action::Start { number, server: run, usage });
        Some(number)
    }

    /// Evicts idle instances for blocked starts, as far as the instances that are stopping do not suffice.
    fn make_room(&mut self, blocked: Vec<BlockedStart>) {
        let leaving = self.members.iter().filter(|(_, member)| member.is_leaving());
        let mut coming_free: Vec<u64> = leaving.map(|(number, _)| *number).collect();
        for BlockedStart { needs, .. } in blocked {
            // One met need is enough to start.
            let _ = needs.iter().any(|need| self.meet(need, &mut coming_free));
        }
    }

    /// Sets instances that are stopping, or else idle ones, aside for a need. Returns whether any helps.
    fn meet(&mut self, need: &Need, coming_free: &mut Vec<u64>) -> bool {
        let mut is_met = false;
        for _ in 0..need.amount {
            let helps = |number: &u64| self.members.get(number).is_some_and(|m| need.is_met_by(m));
            if let Some(index) = coming_free.iter().position(helps) {
                coming_free.swap_remove(index);
                is_met = true;
            } else if let Some(number) = self.least_recently_used(need) {
                self.retire(number, Cause::Evicted, Manner::Now);
                is_met = true;
            }
        }
        is_met
    }

    /// Picks an idle instance to evict and refuses further uses of it: first of the principal with the most instances,
    /// then one without leases, then the least recently used.
    fn least_recently_used(&self, need: &Need) -> Option<u64> {
        let idle = self.members.iter().filter(|(_, m)| m.is_evictable() && need.is_met_by(m));
        let mut idle: Vec<_> = idle
            .map(|(number, m)| {
                let weight = Reverse(self.weight_of(m));
                (weight, !m.leases.is_empty(), m.usage.last(), *number)
            })
            .collect();
        idle.sort_unstable();
        // A caller may begin a use at the same moment; then the next candidate is tried.
        let is_free =
            |number: &u64| self.members.get(number).is_some_and(|m| m.usage.close_if_idle());
        idle.into_iter().map(|(.., number)| number).find(is_free)
    }

    fn serve_all(&mut self, key: &Key, now: Instant) {
        while let Some(number) = self.least_used(key) {
            let Some(waiter) = self.pools.get_mut(key).and_then(|p| p.waiters.pop_front()) else {
                return;
            };
            self.grant(number, &waiter, now);
        }
    }

    fn expire(&mut self, now: Instant) {
        let queued = self.pools.iter().filter(|(_, pool)| !self.is_starting(pool));
        let late = queued.flat_map(|(key, pool)| {
            let is_late = |waiter: &&Waiter| waiter.deadline.is_some_and(|until| until <= now);
            let late = pool.waiters.iter().filter(is_late);
            late.map(move |waiter| (key, waiter))
        });
        let error = |(key, waiter): (&Key, &Waiter)| {
            let principal = &waiter.caller.who.principal;
            let obstacle = self.obstacle(key, principal, waiter.purpose, now);
            let error = AcquireError::TimedOut {
                server: key.server.to_string(),
                waited: now.saturating_duration_since(waiter.since),
                obstacle: obstacle.unwrap_or(Obstacle::Starting),
            };
            (waiter.ticket, error)
        };
        let late: Vec<_> = late.map(error).collect();
        for (ticket, error) in late {
            self.refuse_if(&error, |waiter| waiter.ticket == ticket);
        }
    }
}
