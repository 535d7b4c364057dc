//! Who of those who wait is started now, and who has to go for it.

use std::sync::Arc;
use std::time::Instant;

use super::{AcquireError, Action, Holders, Manner, Member, Obstacle, Plan, State};
use crate::keeper::cause::Cause;
use crate::keeper::event::What;
use crate::keeper::key::Key;
use crate::keeper::usage::Usage;

/// What somebody waits for that another instance could give.
#[derive(Clone, Debug)]
enum Need {
    Place,
    Container,
    PlaceOf(Arc<str>),
}

impl Need {
    fn is_met_by(&self, member: &Member) -> bool {
        match self {
            Self::Place => true,
            Self::Container => member.server.containers > 0,
            Self::PlaceOf(server) => member.key.server == *server,
        }
    }
}

impl Plan {
    /// Starts what can be started, in order. Who waits for something of its own lets others pass.
    pub(super) fn pump(&mut self, now: Instant) {
        self.expire(now);
        for failures in self.failures.values_mut() {
            failures.backoff.take_note(now);
        }
        for member in self.members.values_mut() {
            member.promised_until = member.promised_until.filter(|until| *until > now);
        }
        let mut needs = Vec::new();
        let mut queue = std::mem::take(&mut self.queue);
        // Who has lost a start or moved to another key is not behind those who came later.
        queue.make_contiguous().sort_by_cached_key(|key| {
            self.pools.get(key).and_then(|pool| pool.waiters.front()).map(|waiter| waiter.ticket)
        });
        for key in queue {
            if self.pools.get(&key).is_none_or(|pool| pool.waiters.is_empty()) {
                continue;
            }
            match self.obstacle(&key, now) {
                None => {
                    self.start(&key, now);
                    continue;
                }
                Some(Obstacle::Instances(_)) => needs.push(Need::Place),
                Some(Obstacle::Containers(_)) => {
                    needs.extend(std::iter::repeat_n(Need::Container, self.containers_of(&key)));
                }
                Some(Obstacle::ServerCap(_)) => needs.push(Need::PlaceOf(Arc::clone(&key.server))),
                Some(_) => {}
            }
            // Better a busy one than none.
            if self.least_used(&key).is_some() {
                self.serve_all(&key, now);
            } else {
                self.queue.push_back(key);
            }
        }
        self.is_short = !needs.is_empty();
        self.make_room(needs);
    }

    /// Puts a key into the queue, if somebody waits for it and nobody starts it.
    pub(super) fn requeue(&mut self, key: &Key) {
        let Some(pool) = self.pools.get(key).filter(|pool| !pool.waiters.is_empty()) else {
            return;
        };
        if !self.is_starting(pool) && !self.queue.contains(key) {
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
        let count = pool.members.iter().filter(stays).count();
        count < configured.server.max_instances.get() && !self.is_starting(pool)
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
            is_stopping: false,
            promised_until: None,
        };
        self.members.insert(number, member);
        self.pools.entry(key.clone()).or_default().members.push(number);
        self.books.start();
        self.tell(number, What::Starting { key: key.clone(), by: by.who.clone() });
        self.actions.push(Action::Start { number, server, usage });
    }

    /// Ends idle ones for those who wait, as far as what is on its way out does not suffice.
    fn make_room(&mut self, needs: Vec<Need>) {
        let leaving = self.members.iter().filter(|(_, member)| member.is_leaving());
        let mut coming_free: Vec<u64> = leaving.map(|(number, _)| *number).collect();
        for need in needs {
            let helps = |number: &u64| self.members.get(number).is_some_and(|m| need.is_met_by(m));
            if let Some(index) = coming_free.iter().position(helps) {
                coming_free.swap_remove(index);
            } else if let Some(number) = self.least_recently_used(&need) {
                self.retire(number, Cause::Evicted, Manner::Now);
            }
        }
    }

    /// The idle instance that was not used for the longest time; one that nobody has a lease on is
    /// better still. Nobody can use it from now on.
    fn least_recently_used(&self, need: &Need) -> Option<u64> {
        let idle = self.members.iter().filter(|(_, m)| m.is_evictable() && need.is_met_by(m));
        let mut idle: Vec<(bool, Instant, u64)> =
            idle.map(|(number, m)| (!m.leases.is_empty(), m.usage.last(), *number)).collect();
        idle.sort_unstable();
        // Somebody may begin to use one meanwhile.
        let is_free =
            |number: &u64| self.members.get(number).is_some_and(|m| m.usage.close_if_idle());
        idle.into_iter().map(|(_, _, number)| number).find(is_free)
    }

    fn serve_all(&mut self, key: &Key, now: Instant) {
        while let Some(number) = self.least_used(key) {
            let Some(waiter) = self.pools.get_mut(key).and_then(|p| p.waiters.pop_front()) else {
                return;
            };
            self.lend(number, waiter.ticket, &waiter.caller, now);
            self.actions.push(Action::Grant { ticket: waiter.ticket, number });
        }
    }

    fn expire(&mut self, now: Instant) {
        let queued = self.pools.iter().filter(|(_, pool)| !self.is_starting(pool));
        let late = queued.flat_map(|(key, pool)| {
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
