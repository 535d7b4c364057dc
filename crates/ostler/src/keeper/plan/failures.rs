//! Failures and backoff, per server configuration and principal.
//!
//! A failure counts against the principal that the instance was started for: a client that makes a server fail delays
//! its own next start and no other principal's. A configuration is a server name with its fingerprint, so a changed
//! configuration starts with a clean record, and an unchanged one that is removed and added again does not.

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

/// Most principals remembered for one configuration; the one whose backoff ends first is dropped for a new one.
const MOST: usize = 256;

/// Failure records of all configurations.
#[derive(Debug, Default)]
pub(super) struct Failures(HashMap<(Arc<str>, Fingerprint), BTreeMap<Principal, Record>>);

/// Failures of one configuration that count against one principal.
#[derive(Debug, Default)]
struct Record {
    backoff: Backoff,
    last: Option<Arc<Ending>>,
}

/// An instance that has ended, as far as its failure record needs it.
#[derive(Debug)]
pub(super) struct Ended<'a> {
    pub(super) key: &'a Key,
    /// The principal that the instance was started for.
    pub(super) by: &'a Principal,
    pub(super) server: &'a Server,
    pub(super) uptime: Duration,
    pub(super) ending: &'a Arc<Ending>,
}

impl Failures {
    fn record(&self, key: &Key, principal: &Principal) -> Option<&Record> {
        self.0.get(&(Arc::clone(&key.server), key.fingerprint))?.get(principal)
    }

    /// End of the principal's backoff for this key; `None` if it may start now.
    pub(super) fn until(&self, key: &Key, principal: &Principal, now: Instant) -> Option<Instant> {
        self.record(key, principal)?.backoff.until(now)
    }

    /// Like [`Failures::until`], but also returns a past time until [`Failures::clear_expired`] drops it.
    pub(super) fn pending(&self, key: &Key, principal: &Principal) -> Option<Instant> {
        self.record(key, principal)?.backoff.pending()
    }

    pub(super) fn clear_expired(&mut self, now: Instant) {
        let records = self.0.values_mut().flat_map(BTreeMap::values_mut);
        records.for_each(|record| record.backoff.clear_expired(now));
    }

    /// Drops the records of all configurations of a server.
    pub(super) fn forgive(&mut self, server: &str) {
        self.0.retain(|(name, _), _| **name != *server);
    }

    /// Drops the records of configurations that are not kept. Records with a running backoff stay, so that removing and
    /// adding a server does not bypass it.
    pub(super) fn retain(&mut self, keep: impl Fn(&str, Fingerprint) -> bool, now: Instant) {
        self.0.retain(|(name, fingerprint), records| {
            if !keep(name, *fingerprint) {
                records.retain(|_, record| record.backoff.until(now).is_some());
            }
            !records.is_empty()
        });
    }

    /// The highest failure count and the latest end of a backoff of any principal.
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

    /// Records an end that is no failure.
    fn succeed(&mut self, ended: &Ended<'_>) {
        if ended.uptime >= ended.limits().sustained {
            self.forget(ended);
        }
    }

    /// Records a failure. `share` is a random number from 0 to 1 for jitter. Returns the number of failures in a row and
    /// the backoff.
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

    /// Number of records.
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
    /// Updates the failure record for an instance that has ended.
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

    /// Refuses a request whose backoff ends after its time in the queue. A listing never waits for a backoff.
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
