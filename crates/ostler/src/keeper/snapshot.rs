//! Snapshot of a keeper for display.

use std::time::{Duration, Instant};

use super::books::Books;
use super::key::{Key, Sharing, Who};
use super::plan::{Member, MemberState};
use super::shell::{DriverHandle, ShellState};
use crate::backend::Whereabouts;
use crate::id::InstanceId;

/// State of a keeper at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Counts of instances.
    pub books: Books,
    /// The configured servers.
    pub servers: Vec<ServerView>,
    /// The instances that are not proven gone, oldest first.
    pub instances: Vec<InstanceView>,
    /// Number of requests that wait for an instance.
    pub waiting: usize,
}

/// A configured server.
#[derive(Clone, Debug)]
pub struct ServerView {
    /// Its name.
    pub name: String,
    /// Sharing policy.
    pub sharing: Sharing,
    /// Number of failures in a row.
    pub failures: u32,
    /// Time until its backoff ends; `None` if it may start now.
    pub backing_off: Option<Duration>,
}

/// An instance.
#[derive(Clone, Debug)]
pub struct InstanceView {
    /// Its number within the keeper.
    pub number: u64,
    /// Its id in the ledger, once it is on record.
    pub id: Option<InstanceId>,
    /// Its process or address, once it runs.
    pub whereabouts: Option<Whereabouts>,
    /// The key that its callers share.
    pub key: Key,
    /// Its lifecycle state.
    pub state: InstanceState,
    /// The caller that it was started for.
    pub by: Who,
    /// Callers with a lease on it.
    pub leases: Vec<Who>,
    /// Number of uses under way, without listings.
    pub uses: usize,
    /// Time since its start.
    pub age: Duration,
    /// Time since its last use.
    pub unused: Duration,
}

/// Lifecycle state of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InstanceState {
    /// Not ready yet.
    Starting,
    /// Takes calls.
    Ready,
    /// Takes no more calls and finishes those in flight, for this cause.
    Draining(super::Cause),
    /// Being stopped, for this cause.
    Stopping(super::Cause),
    /// May have left processes or containers.
    Unverified,
}

impl Snapshot {
    pub(super) fn of(state: &ShellState, now: Instant) -> Self {
        let instances = state.plan.members().map(|(number, member)| {
            InstanceView::of(number, member, state.drivers.get(&number), now)
        });
        let servers = state.plan.servers().into_iter().map(|(name, server)| {
            let (failures, until) = state.plan.failures(name, now);
            ServerView {
                name: name.to_owned(),
                sharing: server.sharing,
                failures,
                backing_off: until.map(|until| until.saturating_duration_since(now)),
            }
        });
        Self {
            books: state.plan.books(),
            servers: servers.collect(),
            instances: instances.collect(),
            waiting: state.plan.waiting(),
        }
    }
}

impl InstanceView {
    fn of(number: u64, member: &Member, driver: Option<&DriverHandle>, now: Instant) -> Self {
        Self {
            number,
            id: driver.and_then(|driver| driver.id),
            whereabouts: driver.and_then(|driver| driver.whereabouts.clone()),
            key: member.key.clone(),
            state: match &member.state {
                MemberState::Starting => InstanceState::Starting,
                MemberState::Ready => InstanceState::Ready,
                MemberState::Leaving(cause) if member.is_stopping => {
                    InstanceState::Stopping(cause.clone())
                }
                MemberState::Leaving(cause) => InstanceState::Draining(cause.clone()),
                MemberState::Unverified => InstanceState::Unverified,
            },
            by: member.by.who.clone(),
            leases: member.leases.values().map(|caller| caller.who.clone()).collect(),
            uses: member.calls(),
            age: now.saturating_duration_since(member.since),
            unused: now.saturating_duration_since(member.usage.last()),
        }
    }

    /// The server's pid, if it runs on this machine.
    pub fn pid(&self) -> Option<i32> {
        Some(self.whereabouts.as_ref()?.server()?.pid)
    }

    /// The address of a remote server.
    pub fn place(&self) -> Option<&str> {
        self.whereabouts.as_ref()?.place()
    }
}
