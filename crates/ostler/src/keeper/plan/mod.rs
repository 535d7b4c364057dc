//! Decides which caller gets which instance, and when instances start and stop. No side effects.
//!
//! Each method takes an event and the current time, updates the plan and appends [`Action`]s. The
//! shell carries the actions out before it lets another event in, so the plan never lags behind the
//! instances it has decided about.
//!
//! A caller's request becomes a [`Key`]: callers with equal keys share a [`Pool`] of instances. A
//! request gets a ready instance of its pool at once, or becomes a [`Waiter`]. Pools with waiters and
//! no instance on its way are in `queue`. `pump` runs after every change: it starts queued keys as far
//! as caps and backoff allow, evicts idle instances if a cap is in the way, and refuses waiters whose
//! deadline has passed. The same events and times always lead to the same decisions.

#[cfg(test)]
mod audit;
mod error;
mod failures;
mod listing;
mod member;
mod pump;
mod replace;
mod requests;
mod shares;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use error::{AcquireError, Holders, Obstacle};
use failures::{Ended, Failures};
pub(super) use listing::Purpose;
pub(super) use member::{Member, MemberState};
pub use replace::Changes;
pub(super) use requests::{AcquireDecision, AcquireRequest};

use super::books::Books;
use super::cause::{Cause, Ending};
use super::config::{Caps, Server, ServerLimits};
use super::dice::Dice;
use super::event::What;
use super::key::{Caller, Key, Whose};
use super::principal::Principal;
use super::usage::Usage;
use crate::fingerprint::Fingerprint;
use crate::outcome::{Outcome, Residue};

/// Side effect of a decision, carried out by the shell.
#[derive(Debug)]
pub(super) enum Action {
    /// Start an instance: spawn its driver.
    Start { number: u64, server: Arc<Server>, usage: Arc<Usage> },
    /// Tell an instance's driver to end it.
    End { number: u64, cause: Cause, manner: Manner },
    /// Tell an instance's driver its new limits.
    Adjust { number: u64, limits: ServerLimits },
    /// Give a waiting caller its lease.
    Grant { ticket: u64, number: u64 },
    /// Refuse a waiting caller.
    Refuse { ticket: u64, error: AcquireError },
    /// Publish an event.
    Tell { number: u64, what: What },
}

/// Whether an instance may finish its calls before it stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// Calls in flight may finish within the drain limit.
    Drain,
    /// Calls in flight fail at once.
    Now,
}

/// A request that waits for an instance.
#[derive(Debug)]
struct Waiter {
    ticket: u64,
    caller: Arc<Caller>,
    purpose: Purpose,
    since: Instant,
    /// When the request is refused; `None` for listings, which wait without a limit.
    deadline: Option<Instant>,
    /// The caller's scope has closed. Only listings keep waiting then.
    has_left: bool,
    /// Prefers an instance without calls of other sessions; see [`Demand::is_undivided`].
    is_undivided: bool,
}

/// The instances of one key, and the requests that wait for one, in order of tickets.
#[derive(Debug, Default)]
struct Pool {
    members: Vec<u64>,
    waiters: VecDeque<Waiter>,
}

/// A configured server.
#[derive(Clone, Debug)]
struct Configured {
    server: Arc<Server>,
    /// Cached, because every request needs it.
    fingerprint: Fingerprint,
}

/// All state of a keeper: configured servers, instances, pools and the start queue.
#[derive(Debug)]
pub(super) struct Plan {
    caps: Caps,
    servers: BTreeMap<Arc<str>, Configured>,
    members: BTreeMap<u64, Member>,
    /// Ordered, so that equal events lead to equal decisions.
    pools: BTreeMap<Key, Pool>,
    /// Keys with waiters and no start under way, in order of arrival.
    queue: VecDeque<Key>,
    failures: Failures,
    /// Number of the latest start for each principal that still waits for starts; orders turns.
    served: BTreeMap<Principal, u64>,
    /// A named principal has made a request. From then on no principal may fill a whole cap.
    has_named_principals: bool,
    books: Books,
    /// Last number given to an instance, lease, ticket or scope; they share one sequence.
    last_number: u64,
    dice: Dice,
    is_closing: bool,
    /// A request waits for a slot that an idle instance could free.
    is_short: bool,
    actions: Vec<Action>,
}

impl Plan {
    /// How long a caller waits in the queue before it is refused.
    pub(super) fn queue_timeout(&self) -> Duration {
        self.caps.queue_timeout
    }

    pub(super) fn new(dice: Dice) -> Self {
        Self {
            caps: Caps::default(),
            servers: BTreeMap::new(),
            members: BTreeMap::new(),
            pools: BTreeMap::new(),
            queue: VecDeque::new(),
            failures: Failures::default(),
            served: BTreeMap::new(),
            has_named_principals: false,
            books: Books::default(),
            last_number: 0,
            dice,
            is_closing: false,
            is_short: false,
            actions: Vec::new(),
        }
    }

    /// Returns the actions since the last call; the caller carries them out.
    pub(super) fn take_actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    pub(super) fn books(&self) -> Books {
        self.books
    }

    pub(super) fn members(&self) -> impl Iterator<Item = (u64, &Member)> {
        self.members.iter().map(|(number, member)| (*number, member))
    }

    pub(super) fn member(&self, number: u64) -> Option<&Member> {
        self.members.get(&number)
    }

    /// Whether the end of an instance is proven, or known to be unproven.
    pub(super) fn is_settled(&self, number: u64) -> bool {
        self.members.get(&number).is_none_or(|member| member.state == MemberState::Unverified)
    }

    pub(super) fn is_for_one_call(&self, number: u64) -> bool {
        self.members.get(&number).is_some_and(|m| matches!(m.key.whose, Whose::Lease(_)))
    }

    /// Whether a request waits for a slot that an idle instance could free.
    pub(super) fn is_short(&self) -> bool {
        self.is_short
    }

    /// Number of requests that wait for an instance.
    pub(super) fn waiting(&self) -> usize {
        self.pools.values().map(|pool| pool.waiters.len()).sum()
    }

    pub(super) fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// Earliest time at which [`Plan::tick`] has something to decide.
    pub(super) fn next_wake(&self) -> Option<Instant> {
        let queued = self.pools.values().filter(|pool| !self.is_starting(pool));
        let deadlines = queued.flat_map(|pool| &pool.waiters).filter_map(|w| w.deadline);
        let candidates = self.candidates().into_iter();
        let backoffs = candidates.filter_map(|one| self.failures.pending(&one.key, &one.principal));
        let reservations = self.members.values().filter_map(|member| member.reserved_until);
        deadlines.chain(backoffs).chain(reservations.filter(|_| self.is_short)).min()
    }

    /// Whether an instance of this pool is starting. Its waiters have no queue deadline then: the
    /// start has a limit of its own.
    fn is_starting(&self, pool: &Pool) -> bool {
        let state = |number| self.members.get(number).map(|member| &member.state);
        pool.members.iter().any(|number| state(number) == Some(&MemberState::Starting))
    }

    /// Decides what depends on time alone: deadlines, backoffs and reservations.
    pub(super) fn tick(&mut self, now: Instant) {
        self.pump(now);
    }

    /// The driver reports an instance as ready.
    pub(super) fn ready(&mut self, number: u64, now: Instant) {
        let Some(member) = self.members.get_mut(&number) else { return };
        if member.state != MemberState::Starting {
            return;
        }
        (member.state, member.ready) = (MemberState::Ready, Some(now));
        member.usage.mark(now);
        let (key, after) = (member.key.clone(), now.saturating_duration_since(member.since));
        self.tell(number, What::Ready { after });
        self.serve_waiters(&key, now);
        self.pump(now);
    }

    /// The driver has begun to stop an instance, for a cause of its own or by order of the plan.
    pub(super) fn leaving(&mut self, number: u64, ending: &Arc<Ending>, now: Instant) {
        let Some(member) = self.members.get_mut(&number) else { return };
        let was_starting = member.state == MemberState::Starting;
        member.is_stopping = true;
        if member.stays() {
            member.usage.close();
            member.state = MemberState::Leaving(ending.cause.clone());
        }
        let (key, uptime, server) =
            (member.key.clone(), member.uptime(now), Arc::clone(&member.server));
        let by = member.principal().clone();
        self.tell(number, What::Stopping(ending.cause.clone()));
        self.record_end(&Ended { key: &key, by: &by, server: &server, uptime, ending }, now);
        if was_starting && ending.cause.is_failure() {
            // Callers of other principals get an attempt of their own.
            self.refuse_waiters(&key, &by, &AcquireError::Failed(Arc::clone(ending)), now);
        }
        self.requeue(&key);
        self.pump(now);
    }

    /// Retires an instance if no use is under way. Returns whether it did; uses are refused then.
    pub(super) fn retire_if_idle(&mut self, number: u64) -> bool {
        let Some(member) = self.members.get_mut(&number) else { return false };
        let is_idle = member.is_ready() && member.usage.close_if_idle();
        if is_idle {
            member.state = MemberState::Leaving(Cause::Idle);
        }
        is_idle
    }

    /// The driver reports how an instance ended; `None` if its program never ran. An unverified
    /// instance may be settled a second time when its end is proven after all.
    pub(super) fn settled(
        &mut self,
        number: u64,
        ending: &Arc<Ending>,
        outcome: Option<&Outcome>,
        now: Instant,
    ) {
        let Some(member) = self.members.get_mut(&number) else { return };
        let was_unverified = member.state == MemberState::Unverified;
        let ending = Arc::clone(ending);
        match outcome {
            Some(Outcome::Unverified(_)) if was_unverified => return,
            Some(Outcome::Unverified(residue)) => {
                member.state = MemberState::Unverified;
                self.books.unverified();
                let (ending, residue) = (ending, residue.clone());
                // No process can be found any more, so the instance need not keep its slot.
                if residue == Residue::Unwatched {
                    self.forget(number);
                }
                self.tell(number, What::Unverified { ending, residue });
            }
            Some(Outcome::Gone(_)) if was_unverified => {
                self.books.paid();
                self.forget(number);
                self.tell(number, What::Paid);
            }
            Some(Outcome::Gone(proof)) => {
                self.books.gone();
                self.forget(number);
                self.tell(number, What::Gone { ending, proof: Some(proof.clone()) });
            }
            None => {
                self.books.gone();
                self.forget(number);
                self.tell(number, What::Gone { ending, proof: None });
            }
        }
        self.pump(now);
    }

    /// The driver of an instance was dropped before the end was known. The guardian still stops the
    /// server, but the keeper cannot prove it.
    pub(super) fn lost(&mut self, number: u64, now: Instant) {
        let Some(member) = self.members.get(&number) else { return };
        member.usage.close();
        let key = member.key.clone();
        if member.state != MemberState::Unverified {
            self.books.unverified();
        }
        self.forget(number);
        self.requeue(&key);
        self.pump(now);
    }

    /// Refuses further uses of an instance and orders its driver to stop it.
    pub(super) fn retire(&mut self, number: u64, cause: Cause, manner: Manner) {
        let Some(member) = self.members.get_mut(&number).filter(|member| member.stays()) else {
            return;
        };
        member.usage.close();
        member.state = MemberState::Leaving(cause.clone());
        let key = member.key.clone();
        if manner == Manner::Drain {
            self.tell(number, What::Draining(cause.clone()));
        }
        self.actions.push(Action::End { number, cause, manner });
        self.requeue(&key);
    }

    /// Retires every instance that fits and returns their numbers.
    pub(super) fn retire_all(
        &mut self,
        cause: &Cause,
        manner: Manner,
        fits: impl Fn(u64, &Member) -> bool,
    ) -> Vec<u64> {
        let all = self.members.iter().filter(|(number, member)| fits(**number, member));
        let all: Vec<u64> = all.map(|(number, _)| *number).collect();
        for number in &all {
            self.retire(*number, cause.clone(), manner);
        }
        all
    }

    /// Retires instances on request of an operator and returns their numbers.
    pub(super) fn stop(&mut self, fits: impl Fn(u64, &Key) -> bool, now: Instant) -> Vec<u64> {
        let asked_for = |n: u64, member: &Member| fits(n, &member.key);
        let going = self.retire_all(&Cause::Operator, Manner::Drain, asked_for);
        self.pump(now);
        going
    }

    /// Closes a scope and everything within it. Returns the instances that stop with it.
    pub(super) fn close_scope(&mut self, scope: &Caller, now: Instant) -> Vec<u64> {
        let number = scope.number;
        self.refuse_if(&AcquireError::ScopeClosed, |waiter| {
            waiter.purpose == Purpose::Call && waiter.caller.is_within(number)
        });
        self.leave_listings(number);
        let own = |member: &Member| match &member.key.whose {
            Whose::AllCallers => false,
            // Sessions carry their agent's name, but closing one does not close the agent.
            Whose::Agent { principal, name } => {
                let is_agent = scope.parent.is_none() && scope.who.session == 0;
                is_agent
                    && Some(name) == scope.who.agent.as_ref()
                    && *principal == scope.who.principal
            }
            Whose::Session(session) => {
                member.by.ancestor(*session).is_some_and(|session| session.is_within(number))
            }
            Whose::Lease(_) => member.by.is_within(number),
        };
        let mut going: Vec<u64> =
            self.members().filter(|(_, member)| own(member)).map(|(number, _)| number).collect();
        going.retain(|number| self.retire_with_scope(*number));
        for member in self.members.values_mut() {
            member.leases.retain(|_, caller| !caller.is_within(number));
        }
        self.pump(now);
        going
    }

    /// Closes the keeper: refuses all waiters and stops all instances at once.
    pub(super) fn close(&mut self, now: Instant) -> Vec<u64> {
        self.is_closing = true;
        self.refuse_if(&AcquireError::KeeperClosed, |_| true);
        self.hurry();
        let all = self.retire_all(&Cause::KeeperClosed, Manner::Now, |_, _| true);
        self.pump(now);
        all
    }

    /// Like [`Plan::close`], but calls in flight may finish within the drain limit.
    pub(super) fn drain(&mut self, now: Instant) -> Vec<u64> {
        self.is_closing = true;
        self.refuse_if(&AcquireError::KeeperClosed, |_| true);
        let all = self.retire_all(&Cause::KeeperClosed, Manner::Drain, |_, _| true);
        self.pump(now);
        all
    }

    /// Stops draining instances now.
    pub(super) fn hurry(&mut self) {
        for (number, member) in &self.members {
            if let MemberState::Leaving(cause) = &member.state {
                let (number, cause) = (*number, cause.clone());
                self.actions.push(Action::End { number, cause, manner: Manner::Now });
            }
        }
    }

    fn forget(&mut self, number: u64) {
        let Some(member) = self.members.remove(&number) else { return };
        let Some(pool) = self.pools.get_mut(&member.key) else { return };
        pool.members.retain(|one| *one != number);
        if pool.members.is_empty() && pool.waiters.is_empty() {
            self.pools.remove(&member.key);
        }
    }

    fn tell(&mut self, number: u64, what: What) {
        self.actions.push(Action::Tell { number, what });
    }
}
