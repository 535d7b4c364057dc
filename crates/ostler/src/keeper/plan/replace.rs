//! Applies a new configuration as a difference to the current one.
//!
//! A server is kept if its instances would run the same way (`Server::runs_like`); kept instances adopt the new
//! limits. Instances of changed and removed servers drain. Waiters of a changed server move to the key of the new
//! configuration and keep their place; waiters of a removed server are refused.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use super::{AcquireError, Action, Configured, Manner, Plan};
use crate::keeper::cause::Cause;
use crate::keeper::config::{Config, Server};
use crate::keeper::event::What;

/// Servers by what a new configuration does to them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Same command and terms: their instances stay.
    pub kept: Vec<String>,
    /// Configured differently: their instances drain and stop, and the next caller starts new ones.
    pub changed: Vec<String>,
    /// No longer configured: their instances drain and stop.
    pub removed: Vec<String>,
    /// New servers.
    pub added: Vec<String>,
}

impl Plan {
    /// Applies a configuration. Returns the changes and the instances that stop.
    pub(in crate::keeper) fn replace(
        &mut self,
        config: Config,
        now: Instant,
    ) -> (Changes, Vec<u64>) {
        let old = std::mem::take(&mut self.servers);
        self.caps = config.caps;
        let mut changes = Changes::default();
        for (name, server) in config.servers {
            let list = match old.get(name.as_str()) {
                None => &mut changes.added,
                Some(before) if before.server.runs_like(&server) => &mut changes.kept,
                Some(_) => &mut changes.changed,
            };
            list.push(name.clone());
            let fingerprint = server.fingerprint();
            let configured = Configured { server: Arc::new(server), fingerprint };
            self.servers.insert(name.into(), configured);
        }
        let is_gone = |name: &&Arc<str>| !self.servers.contains_key(&***name);
        changes.removed = old.keys().filter(is_gone).map(ToString::to_string).collect();
        self.adopt(&changes.kept);
        let going = self.retire_outdated(&changes, now);
        self.tell(0, What::Replaced(changes.clone()));
        self.pump(now);
        (changes, going)
    }

    /// Adds one server or replaces its configuration.
    pub(in crate::keeper) fn add(&mut self, name: &str, server: Server, now: Instant) {
        let changes = match self.servers.get(name) {
            None => Changes::default(),
            Some(before) if before.server.runs_like(&server) => {
                Changes { kept: vec![name.to_owned()], ..Changes::default() }
            }
            Some(_) => Changes { changed: vec![name.to_owned()], ..Changes::default() },
        };
        let fingerprint = server.fingerprint();
        self.servers.insert(name.into(), Configured { server: Arc::new(server), fingerprint });
        self.adopt(&changes.kept);
        if !changes.changed.is_empty() {
            self.retire_outdated(&changes, now);
            self.pump(now);
        }
    }

    /// Removes servers that have neither instances nor waiters, unless `keep` accepts them.
    pub(in crate::keeper) fn retain(&mut self, keep: impl Fn(&str) -> bool, now: Instant) {
        let used: BTreeSet<Arc<str>> =
            self.pools.keys().map(|key| Arc::clone(&key.server)).collect();
        self.servers.retain(|name, _| keep(name) || used.contains(name));
        self.forget_failures(now);
    }

    /// Clears the backoff of a server.
    pub(in crate::keeper) fn forgive(&mut self, server: &str, now: Instant) {
        self.failures.forgive(server);
        self.pump(now);
    }

    /// Gives the instances of kept servers the new limits.
    fn adopt(&mut self, kept: &[String]) {
        for (number, member) in self.members.iter_mut().filter(|(_, m)| m.stays()) {
            let name = &member.key.server;
            if let Some(configured) =
                self.servers.get(name).filter(|_| kept.iter().any(|k| **k == **name))
            {
                member.server = Arc::clone(&configured.server);
                let limits = configured.server.limits;
                self.actions.push(Action::Adjust { number: *number, limits });
            }
        }
    }

    fn retire_outdated(&mut self, changes: &Changes, now: Instant) -> Vec<u64> {
        let is_in = |list: &[String], name: &str| list.iter().any(|one| one == name);
        let mut going = Vec::new();
        for (cause, list) in
            [(Cause::Replaced, &changes.changed), (Cause::Removed, &changes.removed)]
        {
            going.extend(self.retire_all(&cause, Manner::Drain, |_, m| is_in(list, &m.key.server)));
        }
        self.move_waiters(changes);
        self.forget_failures(now);
        going
    }

    /// Drops failure records of configurations that are no longer in force; see [`Failures::retain`].
    fn forget_failures(&mut self, now: Instant) {
        let servers = &self.servers;
        let is_configured = |name: &str, fingerprint| {
            servers.get(name).is_some_and(|server| server.fingerprint == fingerprint)
        };
        self.failures.retain(is_configured, now);
    }

    /// Moves waiters of changed servers to their new key and refuses those of removed servers.
    fn move_waiters(&mut self, changes: &Changes) {
        let outdated = |name: &str, list: &[String]| list.iter().any(|one| one == name);
        let keys: Vec<_> = self.pools.keys().cloned().collect();
        for key in keys {
            if outdated(&key.server, &changes.removed) {
                let error = AcquireError::UnknownServer(key.server.to_string());
                let Some(pool) = self.pools.get_mut(&key) else { continue };
                for waiter in pool.waiters.drain(..) {
                    let (ticket, error) = (waiter.ticket, error.clone());
                    self.actions.push(Action::Refuse { ticket, error });
                }
            } else if outdated(&key.server, &changes.changed) {
                let Some(configured) = self.servers.get(&key.server).cloned() else { continue };
                let Some(pool) = self.pools.get_mut(&key) else { continue };
                let waiters = std::mem::take(&mut pool.waiters);
                for waiter in waiters {
                    let sharing = configured.server.sharing;
                    let mut key = key.clone();
                    key.fingerprint = configured.fingerprint;
                    key.whose = waiter.caller.whose(sharing, waiter.ticket);
                    let pool = self.pools.entry(key.clone()).or_default();
                    // Waiters of several keys can end up under one key; tickets keep their order.
                    let place = pool.waiters.partition_point(|one| one.ticket < waiter.ticket);
                    pool.waiters.insert(place, waiter);
                    self.requeue(&key);
                }
            }
        }
        self.pools.retain(|_, pool| !pool.members.is_empty() || !pool.waiters.is_empty());
    }

    pub(in crate::keeper) fn server(&self, name: &str) -> Option<Arc<Server>> {
        self.servers.get(name).map(|configured| Arc::clone(&configured.server))
    }

    /// The configured servers, by name.
    pub(in crate::keeper) fn servers(&self) -> BTreeMap<&str, &Arc<Server>> {
        self.servers.iter().map(|(name, configured)| (&**name, &configured.server)).collect()
    }

    /// Highest failure count and latest end of a backoff over all principals.
    pub(in crate::keeper) fn failures(&self, server: &str, now: Instant) -> (u32, Option<Instant>) {
        let found = self.servers.get_key_value(server);
        found.map_or((0, None), |(name, configured)| {
            self.failures.worst(name, configured.fingerprint, now)
        })
    }
}
