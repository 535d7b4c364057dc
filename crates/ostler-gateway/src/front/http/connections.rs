//! The connections that there are, and which of them gives way when there are too many.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use rustix::process::{Resource, getrlimit};
use tokio::sync::Notify;

use super::limits::DESCRIPTORS;
use crate::gateway::lock;

/// All connections.
#[derive(Debug)]
pub(super) struct Connections {
    most: usize,
    idle: Mutex<Idle>,
}

/// Those on which nothing is asked or answered, the longest first.
#[derive(Debug, Default)]
struct Idle {
    last: u64,
    waiting: BTreeMap<u64, Arc<Notify>>,
}

/// One of them.
#[derive(Debug)]
pub(super) struct Connection {
    all: Arc<Connections>,
    /// Its place among those that are idle.
    place: AtomicU64,
    give_way: Arc<Notify>,
}

/// A connection on which something is answered.
#[derive(Debug)]
pub(super) struct Busy(Arc<Connection>);

impl Connections {
    /// This many, or as many as the descriptors of this process allow.
    pub(super) fn new(most: usize) -> Arc<Self> {
        let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let room = usize::try_from(descriptors / DESCRIPTORS).unwrap_or(usize::MAX);
        Arc::new(Self { most: most.min(room), idle: Mutex::default() })
    }

    /// One more than there are. None if all are busy.
    pub(super) fn open(self: &Arc<Self>, count: usize) -> Option<Arc<Connection>> {
        if count >= self.most {
            let (_, longest) = lock(&self.idle).waiting.pop_first()?;
            longest.notify_one();
        }
        let (all, give_way) = (Arc::clone(self), Arc::default());
        let connection = Arc::new(Connection { all, place: AtomicU64::new(0), give_way });
        connection.rest();
        Some(connection)
    }
}

impl Connection {
    /// Waits until somebody else needs its place.
    pub(super) async fn gives_way(&self) {
        self.give_way.notified().await;
    }

    /// Something is answered on it.
    pub(super) fn work(self: &Arc<Self>) -> Busy {
        self.leave();
        Busy(Arc::clone(self))
    }

    fn rest(&self) {
        let mut idle = lock(&self.all.idle);
        idle.last += 1;
        self.place.store(idle.last, Ordering::Relaxed);
        let place = idle.last;
        idle.waiting.insert(place, Arc::clone(&self.give_way));
    }

    fn leave(&self) {
        lock(&self.all.idle).waiting.remove(&self.place.load(Ordering::Relaxed));
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.leave();
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.rest();
    }
}
