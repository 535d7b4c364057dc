//! What principals may take of what there is only so much of, and whose turn it is.
//!
//! A keeper with a single principal gives it everything. As soon as a named principal has asked for anything, no
//! principal gets the last quarter of a cap: the others can still start something while one holds all that it may.

use std::collections::{BTreeMap, VecDeque};

use super::{
    AcquireError, AcquireRequest, Holders, Member, MemberState, Obstacle, Plan, Purpose, Waiter,
};
use crate::keeper::key::Key;
use crate::keeper::principal::Principal;

/// One part of so many of each cap is kept for other principals.
const RESERVED_PART: usize = 4;

/// What there is only so much of.
#[derive(Clone, Debug)]
enum Slot {
    Instance,
    Container,
    /// A place among the servers of this name.
    InstanceOf(String),
}

/// What a start lacks that the end of another instance could give.
#[derive(Clone, Debug)]
pub(super) struct Need {
    what: Slot,
    /// How much of it.
    pub(super) amount: usize,
    /// Set if this principal has its share already, so that only its own instances can make room.
    from: Option<Principal>,
}

/// A principal that waits for an instance of a key which is not being started.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) key: Key,
    pub(super) principal: Principal,
    /// The most urgent of what it waits for.
    pub(super) purpose: Purpose,
    /// The ticket of the caller of this principal that has waited longest with that purpose.
    pub(super) ticket: u64,
}

/// Starts that wait: for each principal first those that callers wait for, then listings, each in the order of tickets.
#[derive(Debug)]
pub(super) struct StartQueues {
    queues: BTreeMap<Principal, VecDeque<Candidate>>,
    /// How many instances are being started for each principal.
    starting: BTreeMap<Principal, usize>,
}

impl Slot {
    /// How much of it an instance takes.
    fn taken_by(&self, member: &Member) -> usize {
        match self {
            Self::Instance => 1,
            Self::Container => member.server.containers,
            Self::InstanceOf(server) => usize::from(member.server.name() == server),
        }
    }
}

impl Need {
    pub(super) fn is_met_by(&self, member: &Member) -> bool {
        self.what.taken_by(member) > 0
            && self.from.as_ref().is_none_or(|from| member.principal() == from)
    }
}

impl StartQueues {
    /// The next start to look at: what a caller waits for comes before every listing. Then it is the turn of the
    /// principal with the fewest starts under way; among equals of the one whose last start is longest ago.
    pub(super) fn next(&mut self, served: &BTreeMap<Principal, u64>) -> Option<Candidate> {
        let rank = |(principal, queue): &(&Principal, &VecDeque<Candidate>)| {
            let starting = self.starting.get(principal).copied().unwrap_or(0);
            let served = served.get(principal).copied().unwrap_or(0);
            let first = queue.front();
            let purpose = first.map(|first| first.purpose);
            (purpose, starting, served, first.map(|first| first.ticket))
        };
        let waiting = self.queues.iter().filter(|(_, queue)| !queue.is_empty());
        let principal = waiting.min_by_key(rank).map(|(principal, _)| principal.clone())?;
        self.queues.get_mut(&principal)?.pop_front()
    }

    /// Whether anybody of this principal waits.
    pub(super) fn has(&self, principal: &Principal) -> bool {
        self.queues.contains_key(principal)
    }

    pub(super) fn started(&mut self, principal: &Principal) {
        *self.starting.entry(principal.clone()).or_default() += 1;
    }
}

impl Plan {
    /// All starts that wait, those of one principal in the order of its callers.
    pub(super) fn queues(&self) -> StartQueues {
        let mut queues: BTreeMap<Principal, VecDeque<Candidate>> = BTreeMap::new();
        for candidate in self.candidates() {
            queues.entry(candidate.principal.clone()).or_default().push_back(candidate);
        }
        for queue in queues.values_mut() {
            queue.make_contiguous().sort_by_key(|one| (one.purpose, one.ticket));
        }
        let mut queues = StartQueues { queues, starting: BTreeMap::new() };
        let starting = self.members.values().filter(|m| m.state == MemberState::Starting);
        starting.for_each(|member| queues.started(member.principal()));
        queues
    }

    /// Each principal that waits for a queued key.
    pub(super) fn candidates(&self) -> Vec<Candidate> {
        let mut candidates = Vec::new();
        for key in &self.queue {
            let Some(pool) = self.pools.get(key) else { continue };
            let mut first: BTreeMap<&Principal, (Purpose, u64)> = BTreeMap::new();
            for Waiter { ticket, caller, purpose, .. } in &pool.waiters {
                let first = first.entry(&caller.who.principal).or_insert((*purpose, *ticket));
                *first = (*first).min((*purpose, *ticket));
            }
            candidates.extend(first.into_iter().map(|(principal, (purpose, ticket))| Candidate {
                key: key.clone(),
                principal: principal.clone(),
                purpose,
                ticket,
            }));
        }
        candidates
    }

    /// What a start of this key for this principal lacks that other instances have.
    pub(super) fn need(&self, key: &Key, principal: &Principal, purpose: Purpose) -> Option<Need> {
        let server = &self.servers.get(&key.server)?.server;
        let cap = server.cap.map_or(usize::MAX, std::num::NonZero::get);
        let all = [
            (Slot::InstanceOf(server.name().to_owned()), 1, cap),
            (Slot::Container, server.containers, purpose.part_of(self.caps.containers)),
            (Slot::Instance, 1, purpose.part_of(self.caps.instances)),
        ];
        all.into_iter().filter(|(_, amount, _)| *amount > 0).find_map(|(what, amount, cap)| {
            let members = || self.members.values();
            let own = members().filter(|m| m.principal() == principal);
            let own: usize = own.map(|member| what.taken_by(member)).sum();
            let total: usize = members().map(|member| what.taken_by(member)).sum();
            let share = self.share_of(cap);
            let has_share = share < cap && own > 0 && own + amount > share;
            let from = has_share.then(|| principal.clone());
            (has_share || total + amount > cap).then_some(Need { what, amount, from })
        })
    }

    /// What callers of this principal are told about a need.
    pub(super) fn obstacle_of(&self, need: &Need, principal: &Principal) -> Obstacle {
        let holders = self.holders(principal, |member| need.is_met_by(member));
        match need {
            Need { from: Some(_), .. } => Obstacle::Share(holders),
            Need { what: Slot::Instance, .. } => Obstacle::Instances(holders),
            Need { what: Slot::Container, .. } => Obstacle::Containers(holders),
            Need { what: Slot::InstanceOf(_), .. } => Obstacle::ServerCap(holders),
        }
    }

    /// Whether as many are being started as may be, for this principal or in all.
    pub(super) fn is_start_limited(&self, principal: &Principal, purpose: Purpose) -> bool {
        let part = purpose.part_of_starts(self.caps.starting);
        if purpose == Purpose::Listing && self.starts_for_listings() >= part {
            return true;
        }
        let starting = || self.members.values().filter(|m| m.state == MemberState::Starting);
        let own = starting().filter(|member| member.principal() == principal).count();
        starting().count() >= self.caps.starting || own >= self.share_of(self.caps.starting)
    }

    /// How much of a cap one principal may take.
    fn share_of(&self, cap: usize) -> usize {
        if self.has_named_principals { cap - cap / RESERVED_PART } else { cap }
    }

    /// How many instances the principal of this one has; only counted if there are several principals.
    pub(super) fn weight_of(&self, member: &Member) -> usize {
        let is_fellow = |other: &&Member| other.principal() == member.principal();
        if self.has_named_principals { self.members.values().filter(is_fellow).count() } else { 0 }
    }

    /// Makes room in a full queue: a caller takes the place of a listing if there is one. Otherwise the principal with
    /// most waiters in the queue loses its latest one. Refuses what is asked for if that would be its own principal.
    pub(super) fn make_room_in_queue(
        &mut self,
        key: &Key,
        request: &AcquireRequest<'_>,
    ) -> Result<(), AcquireError> {
        let waiters = || self.queue.iter().filter_map(|key| Some((key, self.pools.get(key)?)));
        let waiting: usize = waiters().map(|(_, pool)| pool.waiters.len()).sum();
        if waiting < self.caps.queue {
            return Ok(());
        }
        if request.purpose == Purpose::Call && self.displace_listing() {
            return Ok(());
        }
        let waiters = || self.queue.iter().filter_map(|key| Some((key, self.pools.get(key)?)));
        let principal = &request.caller.who.principal;
        // Callers of each principal: how many, and the latest with the key that it waits for.
        let mut all: BTreeMap<&Principal, (usize, u64, &Key)> = BTreeMap::new();
        for (key, pool) in waiters() {
            for Waiter { ticket, caller, .. } in &pool.waiters {
                let entry = all.entry(&caller.who.principal).or_insert((0, 0, key));
                entry.0 += 1;
                if *ticket > entry.1 {
                    (entry.1, entry.2) = (*ticket, key);
                }
            }
        }
        let own = all.get(principal).map_or(0, |(count, ..)| *count);
        let most = all.iter().max_by_key(|(_, (count, ..))| *count);
        let full = |key: &Key, principal: &Principal| {
            let (server, holders) = (key.server.to_string(), self.holders(principal, |_| true));
            AcquireError::QueueFull { server, waiting, holders }
        };
        match most {
            Some((most, (count, ticket, of))) if *count > own + 1 => {
                let (error, ticket) = (full(of, most), *ticket);
                self.refuse_if(&error, |waiter| waiter.ticket == ticket);
                Ok(())
            }
            _ => Err(full(key, principal)),
        }
    }

    /// Takes the latest listing out of the queue. Returns whether there was one.
    fn displace_listing(&mut self) -> bool {
        let queued = self.queue.iter().filter_map(|key| Some((key, self.pools.get(key)?)));
        let waiters = queued.flat_map(|(key, pool)| pool.waiters.iter().map(move |w| (key, w)));
        let listings = waiters.filter(|(_, waiter)| waiter.purpose == Purpose::Listing);
        let Some((key, latest)) = listings.max_by_key(|(_, waiter)| waiter.ticket) else {
            return false;
        };
        let holders = self.holders(&latest.caller.who.principal, |_| true);
        let (server, waiting) = (key.server.to_string(), self.caps.queue);
        let (error, ticket) = (AcquireError::QueueFull { server, waiting, holders }, latest.ticket);
        self.refuse_if(&error, |waiter| waiter.ticket == ticket);
        true
    }

    /// The instances that fit, as a caller of this principal may know them.
    fn holders(&self, principal: &Principal, fits: impl Fn(&Member) -> bool) -> Holders {
        let fitting = || self.members.values().filter(|member| fits(member));
        let visible = |member: &&Member| principal.may_know(member.principal());
        let named = fitting().filter(visible).map(|member| member.describe_to(principal));
        Holders::of(named, fitting().count())
    }
}
