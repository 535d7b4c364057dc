//! What a keeper has at one moment.

use std::time::{Duration, Instant};

use super::books::Books;
use super::key::{Key, Sharing, Who};
use super::plan::{Member, MemberState};
use super::shell::{DriverHandle, ShellState};
use crate::backend::Whereabouts;
use crate::id::InstanceId;

/// Everything that a keeper has and knows.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The books.
    pub books: Books,
    /// The configured servers.
    pub servers: Vec<ServerView>,
    /// The instances that are not proven to be gone, the oldest first.
    pub instances: Vec<InstanceView>,
    /// How many callers wait for an instance.
    pub waiting: usize,
}

/// A configured server.
#[derive(Clone, Debug)]
pub struct ServerView {
    /// Its name.
    pub name: String,
    /// Who shares an instance.
    pub sharing: Sharing,
    /// How many times in a row it has failed.
    pub failures: u32,
    /// How long it is not started again, because it has failed.
    pub backing_off: Option<Duration>,
}

/// An instance.
#[derive(Clone, Debug)]
pub struct InstanceView {
    /// Its number within the keeper.
    pub number: u64,
    /// Its id in the ledger, once it has one.
    pub id: Option<InstanceId>,
    /// Where it is, once it runs.
    pub whereabouts: Option<Whereabouts>,
    /// What those have in common who share it.
    pub key: Key,
    /// Where it is in its life.
    pub state: InstanceState,
    /// Who has asked for it first.
    pub by: Who,
    /// Who holds a lease on it.
    pub leases: Vec<Who>,
    /// How many uses there are now.
    pub uses: usize,
    /// How long it has been there.
    pub age: Duration,
    /// How long ago it was last used.
    pub unused: Duration,
}

/// Where an instance is in its life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InstanceState {
    /// Not to be used yet.
    Starting,
    /// To be used.
    Ready,
    /// It takes no more calls, and waits for those in flight. It goes for this reason.
    Draining(super::Cause),
    /// It is being ended, for this reason.
    Stopping(super::Cause),
    /// Something of it may be left.
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

    /// The server's pid, once it runs.
    pub fn pid(&self) -> Option<i32> {
        Some(self.whereabouts.as_ref()?.server()?.pid)
    }

    /// Where it is, once it is spoken with, if that is not on this machine.
    pub fn place(&self) -> Option<&str> {
        self.whereabouts.as_ref()?.place()
    }
}
