//! Failed instances, and how long each principal has to wait before its next start.
//!
//! A failure counts against the principal that the instance was started for, whatever it asked with: a client that
//! makes a server fail delays its own next start and no other principal's.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{AcquireError, AcquireRequest, Plan, Purpose};
use crate::fingerprint::Fingerprint;
use crate::keeper::backoff::{Backoff, BackoffLimits};
use crate::keeper::cause::Ending;
use crate::keeper::config::Server;
use crate::keeper::event::What;
use crate::keeper::key::Key;
use crate::keeper::principal::Principal;

/// Principals with failures that are remembered for one configuration. Beyond that the one whose wait ended first
/// is forgotten.
const MOST: usize = 256;

/// The failures of all configurations.
#[derive(Debug, Default)]
pub(super) struct Failures(HashMap<(Arc<str>, Fingerprint), BTreeMap<Principal, Record>>);

/// The failures of one configuration that one principal has caused.
#[derive(Debug, Default)]
struct Record {
    backoff: Backoff,
    last: Option<Arc<Ending>>,
}

/// An instance that has ended.
#[derive(Debug)]
pub(super) struct Ended<'a> {
    pub(super) key: &'a Key,
    /// The principal that it was started for.
    pub(super) by: &'a Principal,
    pub(super) server: &'a Server,
    pub(super) uptime: Duration,
    pub(super) ending: &'a Arc<Ending>,
}

impl Failures {
    fn record(&self, key: &Key, principal: &Principal) -> Option<&Record> {
        self.0.get(&(Arc::clone(&key.server), key.fingerprint))?.get(principal)
    }

    /// When a principal may start an instance of this key, if not now.
    pub(super) fn until(&self, key: &Key, principal: &Principal, now: Instant) -> Option<Instant> {
        self.record(key, principal)?.backoff.until(now)
    }

    /// The same, until the plan has taken note that it is past.
    pub(super) fn pending(&self, key: &Key, principal: &Principal) -> Option<Instant> {
        self.record(key, principal)?.backoff.pending()
    }

    pub(super) fn clear_expired(&mut self, now: Instant) {
        let records = self.0.values_mut().flat_map(BTreeMap::values_mut);
        records.for_each(|record| record.backoff.clear_expired(now));
    }

    /// Forgets the failures of servers with these names.
    pub(super) fn forgive(&mut self, server: &str) {
        self.0.retain(|(name, _), _| **name != *server);
    }

    /// Forgets the failures of configurations that are not kept, except those whose wait is not over: a
    /// configuration that comes back does not get around it.
    pub(super) fn retain(&mut self, keep: impl Fn(&str, Fingerprint) -> bool, now: Instant) {
        self.0.retain(|(name, fingerprint), records| {
            if !keep(name, *fingerprint) {
                records.retain(|_, record| record.backoff.until(now).is_some());
            }
            !records.is_empty()
        });
    }

    /// The most failures in a row of any principal, and the longest wait.
    pub(super) fn worst(
        &self,
        server: &Arc<str>,
        fingerprint: Fingerprint,
        now: Instant,
    ) -> (u32, Option<Instant>) {
        let records = self.0.get(&(Arc::clone(server), fingerprint));
        let records = || records.into_iter().flat_map(BTreeMap::values);
        let failures = records().map(|record| record.backoff.failures()).max();
        let until = records().filter_map(|record| record.backoff.until(now)).max();
        (failures.unwrap_or(0), until)
    }

    /// An instance has ended for a reason that does not count against anybody.
    fn succeed(&mut self, ended: &Ended<'_>) {
        if ended.uptime >= ended.limits().sustained {
            self.forget(ended);
        }
    }

    /// An instance has failed. `share` is a random number from 0 to 1. Returns how often in a row, and the wait.
    fn fail(&mut self, ended: &Ended<'_>, share: f64, now: Instant) -> Option<(u32, Duration)> {
        if ended.uptime >= ended.limits().sustained {
            self.forget(ended);
            return None;
        }
        let of = (Arc::clone(&ended.key.server), ended.key.fingerprint);
        let records = self.0.entry(of).or_default();
        if records.len() >= MOST && !records.contains_key(ended.by) {
            let pending = |(_, record): &(&Principal, &Record)| record.backoff.pending();
            let first = records.iter().min_by_key(pending).map(|(principal, _)| principal.clone());
            first.and_then(|first| records.remove(&first));
        }
        let record = records.entry(ended.by.clone()).or_default();
        record.backoff.fail(ended.limits(), ended.uptime, share, now);
        record.last = Some(Arc::clone(ended.ending));
        let until = record.backoff.until(now)?;
        Some((record.backoff.failures(), until - now))
    }

    /// How many are remembered.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.0.values().map(BTreeMap::len).sum()
    }

    fn forget(&mut self, ended: &Ended<'_>) {
        let of = (Arc::clone(&ended.key.server), ended.key.fingerprint);
        if let Some(records) = self.0.get_mut(&of) {
            records.remove(ended.by);
            if records.is_empty() {
                self.0.remove(&of);
            }
        }
    }
}

impl Ended<'_> {
    fn limits(&self) -> &BackoffLimits {
        &self.server.limits.backoff
    }
}

impl Plan {
    /// Whether an end counts against the principal that caused the start.
    pub(super) fn record_end(&mut self, ended: &Ended<'_>, now: Instant) {
        if !ended.ending.cause.is_failure() {
            return self.failures.succeed(ended);
        }
        let share = self.dice.share();
        if let Some((failures, wait)) = self.failures.fail(ended, share, now) {
            let (server, principal) = (Arc::clone(&ended.key.server), ended.by.clone());
            self.tell(0, What::BackingOff { server, principal, failures, wait });
        }
    }

    /// Refuses a caller whose principal may not start this server in the time that callers wait. A listing does not
    /// wait for the end of a backoff at all.
    pub(super) fn refuse_backing_off(
        &self,
        key: &Key,
        request: &AcquireRequest<'_>,
        now: Instant,
    ) -> Result<(), AcquireError> {
        let Some(record) = self.failures.record(key, &request.caller.who.principal) else {
            return Ok(());
        };
        let patience = match request.purpose {
            Purpose::Call => self.caps.queue_timeout,
            Purpose::Listing => Duration::ZERO,
        };
        match (record.backoff.until(now), &record.last) {
            (Some(until), Some(last)) if until > now + patience => Err(AcquireError::BackingOff {
                server: key.server.to_string(),
                failures: record.backoff.failures(),
                wait: until - now,
                last: Arc::clone(last),
            }),
            _ => Ok(()),
        }
    }
}
