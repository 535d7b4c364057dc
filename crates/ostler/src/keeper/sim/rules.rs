//! Rules that must hold after every step of every schedule.
//!
//! The rules keep their own record of the keeper's events and of what the callers do, and compare it with the plan
//! and with the simulated world. Rules about sequences of events are here; rules about a single moment are in
//! `moment`.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::{Duration, Instant};

use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::TryRecvError;

use super::instance::SimInstance;
use super::servers::BACKOFF;
use crate::fingerprint::Fingerprint;
use crate::keeper::Config;
use crate::keeper::cause::Cause;
use crate::keeper::event::{Event, What};
use crate::keeper::key::{Key, Who};
use crate::keeper::plan::Plan;
use crate::keeper::principal::Principal;
use crate::keeper::shell::ShellState;

/// Resolution of the runtime's timers.
const TICK: Duration = Duration::from_millis(2);

/// The rules and their record.
#[derive(Debug)]
pub(super) struct Rules {
    events: Option<Receiver<Event>>,
    /// The current configuration.
    pub(super) config: Config,
    pub(super) tracks: BTreeMap<u64, Track>,
    /// Instances in the order in which their starts were decided.
    pub(super) order: Vec<u64>,
    asks: BTreeMap<u64, Wait>,
    calls: BTreeMap<u64, Instant>,
    uses: HashMap<u64, Uses>,
    failures: HashMap<Blame, Failing>,
    /// A failure whose `BackingOff` event must come next.
    to_tell: Option<Blame>,
    last: u64,
    pub(super) violation: Option<String>,
    /// Log of all events, if one was requested.
    pub(super) log: Option<Vec<String>>,
    born: Option<Instant>,
    /// Evictions that were checked.
    pub(super) evicted: HashSet<u64>,
    /// When a caller last gave up, for which there is no event.
    pub(super) gave_up: Option<Instant>,
    /// Length of the queue at the last check.
    pub(super) waiting: usize,
    /// The keeper was dropped; its instances end without it.
    pub(super) is_abandoned: bool,
    /// Situations of [`ALL_SEEN`] that came up.
    pub(super) seen: BTreeSet<&'static str>,
}

/// A configuration and the principal that its failures count against.
type Blame = (String, Fingerprint, Principal);

/// Situations that must come up in some schedule.
pub(super) const ALL_SEEN: [&str; 27] = [
    "answer",
    "listed",
    "scope closed",
    "keeper closed",
    "unknown server",
    "queue full",
    "timed out",
    "failed",
    "paid",
    "unverified",
    "ends: its session is over",
    "ends: its call is over",
    "ends: it has listed what it offers, and its client has left",
    "ends: it was idle",
    "ends: its configuration has changed",
    "ends: it is no longer configured",
    "ends: it was idle and others needed its place",
    "ends: no caller waits for it any more",
    "ends: an operator stopped it",
    "ends: its keeper ended",
    "ends: it has exited",
    "ends: it has closed its output",
    "ends: it has closed its input",
    "ends: its guardian was killed",
    "a start beside the backoff of another principal",
    "a principal with its share",
    "turns of two principals",
];

/// One instance, as the events describe it.
#[derive(Debug)]
pub(super) struct Track {
    pub(super) key: Key,
    pub(super) principal: Principal,
    started: Instant,
    ready: Option<Instant>,
}

#[derive(Debug)]
struct Wait {
    server: String,
    who: Who,
    until: Instant,
}

#[derive(Debug, Default)]
struct Uses {
    now: usize,
    last: Option<Instant>,
}

#[derive(Debug, Default)]
struct Failing {
    count: u32,
    until: Option<Instant>,
}

/// Summary of the events since the last check.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) started: Vec<u64>,
    /// A request was queued.
    pub(super) joined: bool,
    /// No other event has changed the queue.
    pub(super) only_joined: bool,
    /// No event after the last start has freed a slot.
    pub(super) is_plain: bool,
}

type Verdict = Result<(), String>;

impl Rules {
    pub(super) fn new(config: Config) -> Self {
        Self {
            events: None,
            config,
            tracks: BTreeMap::new(),
            order: Vec::new(),
            asks: BTreeMap::new(),
            calls: BTreeMap::new(),
            uses: HashMap::new(),
            failures: HashMap::new(),
            to_tell: None,
            last: 0,
            violation: None,
            log: None,
            born: None,
            evicted: HashSet::new(),
            gave_up: None,
            waiting: 0,
            is_abandoned: false,
            seen: BTreeSet::new(),
        }
    }

    pub(super) fn listen(&mut self, events: Receiver<Event>) {
        self.events = Some(events);
    }

    pub(super) fn note(&mut self, now: Instant, what: impl FnOnce() -> String) {
        let born = *self.born.get_or_insert(now);
        if let Some(log) = &mut self.log {
            log.push(format!("{:>8.1?} {}", now - born, what()));
        }
    }

    pub(super) fn saw(&mut self, what: &str) {
        self.seen.extend(ALL_SEEN.iter().find(|one| **one == what));
    }

    pub(super) fn broken(&mut self, what: String) {
        self.violation.get_or_insert(what);
    }

    pub(super) fn check(
        &mut self,
        state: &ShellState,
        instances: &[SimInstance],
        starts: &[usize],
        now: Instant,
    ) {
        if self.violation.is_none() {
            let verdict = self.judge(state, instances, starts, now);
            if let Err(what) = verdict {
                self.broken(what);
            }
        }
    }

    fn judge(
        &mut self,
        state: &ShellState,
        instances: &[SimInstance],
        starts: &[usize],
        now: Instant,
    ) -> Verdict {
        let instance = |rules: &Self, number: u64| {
            let index = rules.order.iter().position(|one| *one == number)?;
            instances.get(*starts.get(index)?)
        };
        let mut batch = Batch { only_joined: true, is_plain: true, ..Batch::default() };
        while let Some(event) = self.next_event()? {
            self.note(now, || format!("{} {:?}", event.number, event.what));
            batch.take(&event);
            self.hear(&event, &state.plan, now)?;
            let is_over = matches!(event.what, What::Gone { .. } | What::Paid);
            if is_over
                && instance(self, event.number).is_some_and(|instance| instance.is_alive(now))
            {
                return Err(format!("{} is reported as gone, and lives", event.number));
            }
        }
        state.plan.audit(now)?;
        let held =
            state.drivers.keys().filter(|number| state.plan.member(**number).is_none()).min();
        if let Some(number) = held {
            return Err(format!("{number} is forgotten, and its driver handle is not"));
        }
        self.check_waits(now)?;
        self.check_moment(&state.plan, instances, starts, &batch, now)
    }

    fn next_event(&mut self) -> Result<Option<Event>, String> {
        match self.events.as_mut().map(Receiver::try_recv) {
            Some(Ok(event)) => Ok(Some(event)),
            Some(Err(TryRecvError::Lagged(_))) => Err("the rules have missed an event".into()),
            Some(Err(TryRecvError::Empty | TryRecvError::Closed)) | None => Ok(None),
        }
    }

    fn hear(&mut self, event: &Event, plan: &Plan, now: Instant) -> Verdict {
        let number = event.number;
        let untold = self.to_tell.take();
        match &event.what {
            What::BackingOff { principal, failures, wait, .. } => {
                let of = untold.ok_or("a backoff without a failure")?;
                if of.2 != *principal {
                    return Err(format!("{principal} is blamed for what {} has caused", of.2));
                }
                return self.hear_backoff(of, *failures, *wait, now);
            }
            _ if untold.is_some() => return Err("a failure without a backoff".into()),
            What::Starting { key, by } => self.hear_start(number, key, by, now)?,
            What::Ready { after } => {
                let track = self.track(number)?;
                track.ready = Some(track.started + *after);
            }
            What::Stopping(cause) => {
                self.saw(&format!("ends: {cause}"));
                self.hear_stop(number, cause, plan, now)?;
            }
            What::Paid => self.saw("paid"),
            What::Unverified { .. } => self.saw("unverified"),
            What::Replaced(_) => {
                let config = &self.config;
                self.failures.retain(|(name, fingerprint, _), failing| {
                    let server = config.servers.get(name);
                    server.is_some_and(|server| server.fingerprint() == *fingerprint)
                        || failing.until.is_some_and(|until| until > now)
                });
            }
            _ => {}
        }
        Ok(())
    }

    fn track(&mut self, number: u64) -> Result<&mut Track, String> {
        self.tracks.get_mut(&number).ok_or(format!("{number} was never started"))
    }

    /// Nothing starts without a waiter, nor before its backoff is over.
    fn hear_start(&mut self, number: u64, key: &Key, by: &Who, now: Instant) -> Verdict {
        let waits = |ask: &Wait| *ask.server == *key.server && ask.who == *by;
        if !self.asks.values().any(waits) {
            return Err(format!("{number} ({key}) is started, and {by} does not wait"));
        }
        let failing = self.failures.iter().filter(|((server, fingerprint, _), failing)| {
            let is_same = **server == *key.server && *fingerprint == key.fingerprint;
            is_same && failing.until.is_some_and(|until| until > now)
        });
        let failing: Vec<&Principal> = failing.map(|((_, _, principal), _)| principal).collect();
        if failing.contains(&&by.principal) {
            return Err(format!("{number} ({key}) is started during its backoff"));
        }
        if !failing.is_empty() {
            self.saw("a start beside the backoff of another principal");
        }
        self.order.push(number);
        let principal = by.principal.clone();
        let track = Track { key: key.clone(), principal, started: now, ready: None };
        self.tracks.insert(number, track);
        Ok(())
    }

    fn hear_stop(&mut self, number: u64, cause: &Cause, plan: &Plan, now: Instant) -> Verdict {
        let track = self.track(number)?;
        let uptime = track.ready.map_or(Duration::ZERO, |ready| now - ready);
        let (key, principal, ready) = (&track.key, track.principal.clone(), track.ready);
        let of = (key.server.to_string(), key.fingerprint, principal);
        let is_sustained = uptime >= BACKOFF.sustained;
        if is_sustained {
            self.failures.remove(&of);
        } else if cause.is_failure() {
            self.failures.entry(of.clone()).or_default().count += 1;
            self.to_tell = Some(of);
        }
        if !matches!(cause, Cause::Idle | Cause::Evicted) {
            return Ok(());
        }
        let uses = self.uses.get(&number);
        if uses.is_some_and(|uses| uses.now > 0) {
            return Err(format!("{number} is in use, and ends: {cause}"));
        }
        let Some(member) = plan.member(number) else { return Ok(()) };
        let Some(limit) = member.server.limits.idle else {
            return Err(format!("{number} has no idle limit, and ends: {cause}"));
        };
        let last = uses.and_then(|uses| uses.last).max(ready).ok_or("idle before it was ready")?;
        if *cause == Cause::Idle && now + TICK < last + limit {
            return Err(format!("{number} was used {:?} ago, and is called idle", now - last));
        }
        Ok(())
    }

    fn hear_backoff(&mut self, of: Blame, failures: u32, wait: Duration, now: Instant) -> Verdict {
        let failing = self.failures.entry(of).or_default();
        failing.until = Some(now + wait);
        let doubled = BACKOFF.first * (1 << (failing.count.clamp(1, 20) - 1));
        let base = doubled.min(BACKOFF.most);
        let is_in_range = wait >= base.mul_f64(0.75) && wait <= base.mul_f64(1.25);
        if failing.count == failures && is_in_range {
            return Ok(());
        }
        Err(format!("{failures} failures and {wait:?}, not {} and about {base:?}", failing.count))
    }

    fn check_waits(&self, now: Instant) -> Verdict {
        let late = self.asks.values().find(|ask| ask.until + TICK < now);
        if let Some(ask) = late {
            return Err(format!("{} waits for {} after its deadline", ask.who, ask.server));
        }
        let late = self.calls.values().any(|until| *until + TICK < now);
        if late { Err("a call has not ended by its deadline".into()) } else { Ok(()) }
    }

    // Record of the callers.

    pub(super) fn ask(&mut self, server: &str, who: &Who, until: Instant) -> u64 {
        self.last += 1;
        let ask = Wait { server: server.to_owned(), who: who.clone(), until };
        self.asks.insert(self.last, ask);
        self.last
    }

    pub(super) fn asked(&mut self, ask: u64) {
        self.asks.remove(&ask);
    }

    pub(super) fn asked_all(&mut self) {
        self.asks.clear();
    }

    pub(super) fn call(&mut self, until: Instant) -> u64 {
        self.last += 1;
        self.calls.insert(self.last, until);
        self.last
    }

    pub(super) fn called(&mut self, call: u64) {
        self.calls.remove(&call);
    }

    pub(super) fn begin_use(&mut self, number: u64, now: Instant) {
        let uses = self.uses.entry(number).or_default();
        (uses.now, uses.last) = (uses.now + 1, Some(now));
    }

    pub(super) fn end_use(&mut self, number: u64, now: Instant) {
        let uses = self.uses.entry(number).or_default();
        (uses.now, uses.last) = (uses.now.saturating_sub(1), Some(now));
    }

    /// Number of requests and calls under way.
    pub(super) fn open(&self) -> usize {
        self.asks.len() + self.calls.len()
    }
}

impl Batch {
    fn take(&mut self, event: &Event) {
        match &event.what {
            What::Starting { .. } => {
                self.started.push(event.number);
                self.is_plain = true;
            }
            What::Queued { .. } => self.joined = true,
            What::Running { .. } => {}
            _ => (self.only_joined, self.is_plain) = (false, false),
        }
    }
}
