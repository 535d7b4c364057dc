//! Who of those who wait is started now, and who has to go for it.

use std::sync::Arc;
use std::time::Instant;

use super::{AcquireError, Action, Holders, Manner, Member, Obstacle, Plan, State};
use crate::keeper::cause::Cause;
use crate::keeper::event::What;
use crate::keeper::key::Key;
use crate::keeper::usage::Usage;

impl Plan {
    /// Starts what can be started, in order. Who waits for something of its own lets others pass; who
    /// waits for a place that anybody could take does not.
    pub(super) fn pump(&mut self, now: Instant) {
        self.expire(now);
        let mut short_of_places = 0;
        let mut short_of_containers = 0;
        for key in std::mem::take(&mut self.queue) {
            if self.pools.get(&key).is_none_or(|pool| pool.waiters.is_empty()) {
                continue;
            }
            match self.obstacle(&key, now) {
                None if short_of_places == 0 => {
                    self.start(&key, now);
                    continue;
                }
                Some(Obstacle::Containers(_)) => {
                    short_of_containers += self.containers_of(&key);
                }
                None | Some(Obstacle::Instances(_)) => short_of_places += 1,
                Some(_) => {}
            }
            // Better a busy one than none.
            if self.least_used(&key).is_some() {
                self.serve_all(&key);
            } else {
                self.queue.push_back(key);
            }
        }
        self.is_short = short_of_places > 0 || short_of_containers > 0;
        self.make_room(short_of_places, short_of_containers);
    }

    /// Puts a key into the queue, if somebody waits for it and nobody starts it.
    pub(super) fn requeue(&mut self, key: &Key) {
        let Some(pool) = self.pools.get(key).filter(|pool| !pool.waiters.is_empty()) else {
            return;
        };
        let is_starting =
            |number| self.members.get(number).is_some_and(|member| member.state == State::Starting);
        if !pool.members.iter().any(is_starting) && !self.queue.contains(key) {
            self.queue.push_back(key.clone());
        }
    }

    /// What keeps an instance of this key from being started now.
    pub(super) fn obstacle(&self, key: &Key, now: Instant) -> Option<Obstacle> {
        let configured = self.servers.get(&key.server)?;
        let failures = self.failures.get(&(Arc::clone(&key.server), key.fingerprint));
        if failures.is_some_and(|failures| failures.backoff.until(now).is_some()) {
            return Some(Obstacle::Backoff);
        }
        let precedes = |m: &Member| !m.stays() && key.succeeds(&m.key);
        if key.whose.is_exclusive() && self.members.values().any(precedes) {
            return Some(Obstacle::Predecessor);
        }
        let of_server = |m: &&Member| m.key.server == key.server;
        let cap = configured.server.cap.map_or(usize::MAX, std::num::NonZero::get);
        if self.members.values().filter(of_server).count() >= cap {
            return Some(Obstacle::ServerCap(self.holders(|m| of_server(&m))));
        }
        let needed = configured.server.containers;
        if needed > 0 && self.containers() + needed > self.caps.containers {
            return Some(Obstacle::Containers(self.holders(|m| m.server.containers > 0)));
        }
        if self.members.len() >= self.caps.instances {
            return Some(Obstacle::Instances(self.holders(|_| true)));
        }
        let starting = self.members.values().filter(|m| m.state == State::Starting).count();
        (starting >= self.caps.starting).then_some(Obstacle::Starts)
    }

    /// Whether the pool of this key may have one more.
    pub(super) fn can_grow(&self, key: &Key) -> bool {
        let Some(configured) = self.servers.get(&key.server) else { return false };
        let Some(pool) = self.pools.get(key) else { return true };
        let stays = |number: &&u64| self.members.get(number).is_some_and(Member::stays);
        let is_starting =
            |number: &u64| self.members.get(number).is_some_and(|m| m.state == State::Starting);
        let count = pool.members.iter().filter(stays).count();
        count < configured.server.max_instances.get() && !pool.members.iter().any(is_starting)
    }

    fn start(&mut self, key: &Key, now: Instant) {
        let Some(configured) = self.servers.get(&key.server) else { return };
        let server = Arc::clone(&configured.server);
        let Some(first) = self.pools.get(key).and_then(|pool| pool.waiters.front()) else { return };
        let by = Arc::clone(&first.caller);
        let number = self.number();
        let usage = Arc::new(Usage::new(now));
        let member = Member {
            key: key.clone(),
            server: Arc::clone(&server),
            state: State::Starting,
            usage: Arc::clone(&usage),
            leases: std::collections::BTreeMap::new(),
            by: Arc::clone(&by),
            since: now,
            ready: None,
        };
        self.members.insert(number, member);
        self.pools.entry(key.clone()).or_default().members.push(number);
        self.books.start();
        self.tell(number, What::Starting { key: key.clone(), by: by.who.clone() });
        self.actions.push(Action::Start { number, server, usage });
    }

    /// Ends idle ones, those first that were not used for the longest time, as far as the places that
    /// are coming free do not suffice.
    fn make_room(&mut self, mut places: usize, mut containers: usize) {
        for member in self.members.values().filter(|member| member.is_leaving()) {
            places = places.saturating_sub(1);
            containers = containers.saturating_sub(member.server.containers);
        }
        let mut idle: Vec<(bool, Instant, u64)> = self
            .members
            .iter()
            .filter(|(_, member)| member.is_evictable())
            .map(|(number, m)| (!m.leases.is_empty(), m.usage.last(), *number))
            .collect();
        idle.sort_unstable();
        for (_, _, number) in idle {
            let Some(member) = self.members.get(&number) else { continue };
            let holds = member.server.containers;
            let helps = places > 0 || (containers > 0 && holds > 0);
            // Somebody may have begun to use it since.
            if helps && member.usage.close_if_idle() {
                places = places.saturating_sub(1);
                containers = containers.saturating_sub(holds);
                self.retire(number, Cause::Evicted, Manner::Now);
            }
        }
    }

    fn serve_all(&mut self, key: &Key) {
        while let Some(number) = self.least_used(key) {
            let Some(waiter) = self.pools.get_mut(key).and_then(|p| p.waiters.pop_front()) else {
                return;
            };
            self.lend(number, waiter.ticket, &waiter.caller);
            self.actions.push(Action::Grant { ticket: waiter.ticket, number });
        }
    }

    fn expire(&mut self, now: Instant) {
        let late = self.pools.iter().flat_map(|(key, pool)| {
            let late = pool.waiters.iter().filter(|waiter| waiter.deadline <= now);
            late.map(move |waiter| (key.clone(), waiter.ticket, waiter.since))
        });
        let late: Vec<_> = late.collect();
        for (key, ticket, since) in late {
            let error = AcquireError::TimedOut {
                server: key.server.to_string(),
                waited: now.saturating_duration_since(since),
                obstacle: self.obstacle(&key, now).unwrap_or(Obstacle::Starting),
            };
            self.refuse_if(&error, |waiter| waiter.ticket == ticket);
        }
    }

    fn containers(&self) -> usize {
        self.members.values().map(|member| member.server.containers).sum()
    }

    fn containers_of(&self, key: &Key) -> usize {
        self.servers.get(&key.server).map_or(0, |configured| configured.server.containers)
    }

    fn holders(&self, fits: impl Fn(&Member) -> bool) -> Holders {
        Holders::of(self.members.values().filter(|member| fits(member)).map(Member::describe))
    }
}
