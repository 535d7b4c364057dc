//! Fairness between principals: shares of each cap, and the order of starts.
//!
//! A single principal may fill every cap. As soon as a named principal has made a request, no principal may take the
//! last quarter of a cap, so the others can still start something. Starts are offered to the principal with the
//! fewest starts under way. When the queue is full, the principal with the most waiters loses its latest one.

use std::collections::{BTreeMap, VecDeque};

use super::{
    AcquireError, AcquireRequest, Holders, Member, MemberState, Obstacle, Plan, Purpose, Waiter,
};
use crate::keeper::key::Key;
use crate::keeper::principal::Principal;

/// One part in this many of each cap is kept for other principals.
const RESERVED_PART: usize = 4;

/// A capped resource that instances occupy.
#[derive(Clone, Debug)]
enum Slot {
    Instance,
    Container,
    /// Counts against the cap of the server with this name.
    InstanceOf(String),
}

/// Slots that a start lacks, and that the end of another instance would free.
#[derive(Clone, Debug)]
pub(super) struct Need {
    what: Slot,
    /// Number of slots.
    pub(super) amount: usize,
    /// Set if this principal has used up its share: only its own instances can make room.
    from: Option<Principal>,
}

/// A queued key and one principal that waits for it.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) key: Key,
    pub(super) principal: Principal,
    /// Most urgent purpose of the principal's waiters.
    pub(super) purpose: Purpose,
    /// Lowest ticket with that purpose.
    pub(super) ticket: u64,
}

/// Queued starts per principal: calls before listings, each in order of tickets.
#[derive(Debug)]
pub(super) struct StartQueues {
    queues: BTreeMap<Principal, VecDeque<Candidate>>,
    /// Starts under way for each principal.
    starting: BTreeMap<Principal, usize>,
}

impl Slot {
    /// Number of these slots that an instance occupies.
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
    /// Takes the next start: calls before listings, then the principal with the fewest starts under way, then the one
    /// whose latest start is longest ago.
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

    /// Whether this principal has queued starts.
    pub(super) fn has(&self, principal: &Principal) -> bool {
        self.queues.contains_key(principal)
    }

    pub(super) fn started(&mut self, principal: &Principal) {
        *self.starting.entry(principal.clone()).or_default() += 1;
    }
}

impl Plan {
    /// All queued starts, in order per principal.
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

    /// Every queued key, once for each principal that waits for it.
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

    /// The first cap that a start of this key for this principal would exceed.
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

    /// A need in the words of an error message for this principal.
    pub(super) fn obstacle_of(&self, need: &Need, principal: &Principal) -> Obstacle {
        let holders = self.holders(principal, |member| need.is_met_by(member));
        match need {
            Need { from: Some(_), .. } => Obstacle::Share(holders),
            Need { what: Slot::Instance, .. } => Obstacle::Instances(holders),
            Need { what: Slot::Container, .. } => Obstacle::Containers(holders),
            Need { what: Slot::InstanceOf(_), .. } => Obstacle::ServerCap(holders),
        }
    }

    /// Whether a limit on simultaneous starts is reached: of all starts, of this principal's, or of listings.
    pub(super) fn is_start_limited(&self, principal: &Principal, purpose: Purpose) -> bool {
        let part = purpose.part_of_starts(self.caps.starting);
        if purpose == Purpose::Listing && self.starts_for_listings() >= part {
            return true;
        }
        let starting = || self.members.values().filter(|m| m.state == MemberState::Starting);
        let own = starting().filter(|member| member.principal() == principal).count();
        starting().count() >= self.caps.starting || own >= self.share_of(self.caps.starting)
    }

    /// The part of a cap that one principal may fill.
    fn share_of(&self, cap: usize) -> usize {
        if self.has_named_principals { cap - cap / RESERVED_PART } else { cap }
    }

    /// Number of instances of this one's principal; 0 as long as there is only the default principal.
    pub(super) fn weight_of(&self, member: &Member) -> usize {
        let is_fellow = |other: &&Member| other.principal() == member.principal();
        if self.has_named_principals { self.members.values().filter(is_fellow).count() } else { 0 }
    }

    /// Makes room in a full queue: a call displaces the latest listing. Otherwise the principal with the most waiters
    /// loses its latest one. Refuses the request if that would be its own principal.
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
        // For each principal: the number of waiters, the latest ticket and the key it waits for.
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

    /// Refuses the latest queued listing. Returns whether there was one.
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

    /// The instances that fit, as far as callers of this principal may know them.
    fn holders(&self, principal: &Principal, fits: impl Fn(&Member) -> bool) -> Holders {
        let fitting = || self.members.values().filter(|member| fits(member));
        let visible = |member: &&Member| principal.may_know(member.principal());
        let named = fitting().filter(visible).map(|member| member.describe_to(principal));
        Holders::of(named, fitting().count())
    }
}
