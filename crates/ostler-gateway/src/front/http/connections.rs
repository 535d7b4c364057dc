//! Limit on HTTP connections, and the choice of those that are closed.
//!
//! A connection is *busy* while it serves an admitted request, and *unused* otherwise. An unused connection is closed
//! after `Limits::head`; at the limit on connections, a new one makes the one close that has been unused longest.
//! Busy connections are never closed for others: if all are busy, the gateway drops the new one.
//!
//! The list of connections is ordered by when each became unused, but it is not updated with each request: a request
//! only stores a time in its slot, without a lock. A search for the oldest corrects the entries that it finds to be
//! out of date.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Resource, getrlimit};
use tokio::sync::Notify;
use tokio::time::sleep;

use super::limits::DESCRIPTORS;
use super::refusal::Refusal;
use crate::mutex::lock;
use crate::quota::Account;

/// Number of checks for unused connections within the time that a connection may be unused.
const LOOKS: u32 = 8;
/// Shortest and longest interval between two checks.
const LOOK: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// Number of connections above the limit that were told to close but have not closed yet.
const LEAVING: usize = 16;

/// All open connections of the HTTP front.
#[derive(Debug)]
pub(super) struct Connections {
    most: usize,
    begin: Instant,
    list: Mutex<List>,
}

/// Connections ordered by when they were last seen to become unused. An entry may be out of date; it is corrected
/// only when a search reaches it.
#[derive(Debug, Default)]
struct List {
    last: u64,
    /// By time and connection number.
    slots: BTreeMap<(Stamp, u64), Arc<Slot>>,
}

/// Time in microseconds since the start of the front, plus one.
type Stamp = u64;
/// Value of `unused_since` for a busy connection.
const BUSY: Stamp = 0;

/// State of a connection that the list shares with it.
#[derive(Debug)]
struct Slot {
    number: u64,
    /// Time under which the slot is in the list.
    listed: AtomicU64,
    unused_since: AtomicU64,
    told: Notify,
}

/// Registration of an open connection, until it is dropped.
#[derive(Debug)]
pub(super) struct Connection {
    all: Arc<Connections>,
    slot: Arc<Slot>,
}

/// Guard of a connection that serves a request of one principal.
#[derive(Debug)]
pub(super) struct Busy {
    connection: Arc<Connection>,
    account: Arc<Account>,
}

impl Connections {
    /// At most this many connections, or half of `RLIMIT_NOFILE` if that is less.
    pub(super) fn new(most: usize) -> Arc<Self> {
        let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let room = usize::try_from(descriptors / DESCRIPTORS).unwrap_or(usize::MAX);
        Arc::new(Self { most: most.min(room), begin: Instant::now(), list: Mutex::default() })
    }

    /// Limit on connections.
    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// Whether another connection fits beside `count` open ones, which include those that were told to close.
    pub(super) fn has_room(&self, count: usize) -> bool {
        count < self.most.saturating_add(LEAVING)
    }

    /// Registers a connection beside `count` open ones. At the limit, tells the longest unused one to close; `None`
    /// if all are busy.
    pub(super) fn open(self: &Arc<Self>, count: usize) -> Option<Arc<Connection>> {
        if !self.has_room(count) {
            return None;
        }
        if count >= self.most {
            self.longest_unused(Stamp::MAX)?.told.notify_one();
        }
        let now = self.now();
        let mut list = lock(&self.list);
        list.last += 1;
        let slot = Arc::new(Slot {
            number: list.last,
            listed: AtomicU64::new(now),
            unused_since: AtomicU64::new(now),
            told: Notify::new(),
        });
        list.add(now, Arc::clone(&slot));
        Some(Arc::new(Connection { all: Arc::clone(self), slot }))
    }

    /// Closes connections that have been unused for `limit`; runs until it is dropped.
    pub(super) async fn end_unused(&self, limit: Duration) {
        loop {
            sleep((limit / LOOKS).clamp(LOOK.0, LOOK.1)).await;
            let Some(since) = self.begin.elapsed().checked_sub(limit) else { continue };
            while let Some(slot) = self.longest_unused(stamp(since)) {
                slot.told.notify_one();
            }
        }
    }

    /// Tells all connections to close, when the gateway shuts down.
    pub(super) fn tell_all(&self) {
        lock(&self.list).slots.values().for_each(|slot| slot.told.notify_one());
    }

    /// Takes the longest unused connection off the list, if it became unused no later than `by`.
    fn longest_unused(&self, by: Stamp) -> Option<Arc<Slot>> {
        let now = self.now();
        let mut list = lock(&self.list);
        let mut busy = Vec::new();
        let found = loop {
            let first = list.slots.first_entry().filter(|first| first.key().0 <= by);
            let Some(first) = first else { break None };
            let ((listed, _), slot) = first.remove_entry();
            match slot.unused_since.load(Ordering::Relaxed) {
                BUSY => busy.push(slot),
                since if since == listed => break Some(slot),
                since => list.add(since, slot),
            }
        };
        for slot in busy {
            list.add(now, slot);
        }
        found
    }

    fn now(&self) -> Stamp {
        stamp(self.begin.elapsed())
    }
}

impl List {
    fn add(&mut self, since: Stamp, slot: Arc<Slot>) {
        slot.listed.store(since, Ordering::Relaxed);
        self.slots.insert((since, slot.number), slot);
    }
}

impl Connection {
    /// Waits until the connection has to close: unused for too long, replaced by another one, or because of a
    /// shutdown.
    pub(super) async fn told(&self) {
        self.slot.told.notified().await;
    }

    /// Marks the connection as busy, unless its principal has used up its share of connections.
    pub(super) fn work(self: &Arc<Self>, account: Arc<Account>) -> Result<Busy, Refusal> {
        if !account.use_connection() {
            return Err(Refusal::Connections);
        }
        self.slot.unused_since.store(BUSY, Ordering::Relaxed);
        Ok(Busy { connection: Arc::clone(self), account })
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut list = lock(&self.all.list);
        let listed = self.slot.listed.load(Ordering::Relaxed);
        list.slots.remove(&(listed, self.slot.number));
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.account.give_back_connection();
        let Connection { all, slot } = &*self.connection;
        slot.unused_since.store(all.now(), Ordering::Relaxed);
    }
}

fn stamp(time: Duration) -> Stamp {
    Stamp::try_from(time.as_micros()).unwrap_or(Stamp::MAX - 1) + 1
}

#[cfg(test)]
mod tests {
    use ostler::keeper::Principal;

    use super::*;
    use crate::quota::Quotas;

    /// Whether the connection was told to close.
    fn is_told(connection: &Connection) -> bool {
        let told = std::pin::pin!(connection.told());
        told.poll(&mut std::task::Context::from_waker(std::task::Waker::noop())).is_ready()
    }

    fn work(connection: &Arc<Connection>) -> Busy {
        connection.work(Quotas::default().account(&Principal::default())).expect("room")
    }

    fn pass_time() {
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_micros(2) {}
    }

    /// Opens `count` connections one after the other, which is also the limit.
    fn full(count: usize) -> (Arc<Connections>, Vec<Arc<Connection>>) {
        let all = Connections::new(count);
        let open = |count| {
            pass_time();
            all.open(count).expect("room")
        };
        let connections = (0..count).map(open).collect();
        (all, connections)
    }

    #[test]
    fn the_longest_unused_connection_is_closed_once() {
        let (all, open) = full(3);
        pass_time();
        drop(work(&open[0]));
        let _busy = work(&open[1]);
        let fourth = all.open(3).expect("room");
        assert_eq!([0, 1, 2].map(|index| is_told(&open[index])), [false, false, true]);
        let _fifth = all.open(3).expect("room");
        assert_eq!([0, 1, 2].map(|index| is_told(&open[index])), [true, false, false]);
        assert!(!is_told(&fourth));
    }

    #[test]
    fn a_connection_in_use_is_not_closed() {
        let (all, mut open) = full(2);
        let mut busy: Vec<_> = open.iter().map(work).collect();
        assert!(all.open(2).is_none());
        assert!(!open.iter().any(|connection| is_told(connection)));
        busy.remove(0);
        assert!(all.open(2).is_some());
        assert!(is_told(&open[0]) && !is_told(&open[1]));
        open.clear();
        busy.clear();
        assert!(lock(&all.list).slots.is_empty());
    }

    #[test]
    fn connections_that_are_closing_still_count() {
        let (all, open) = full(LEAVING + 2);
        let mut more = Vec::new();
        for number in 0..LEAVING {
            more.push(all.open(open.len() + number).expect("room for one that leaves"));
        }
        assert!(!all.has_room(open.len() + more.len()));
        assert!(all.open(open.len() + more.len()).is_none());
        assert_eq!(open.iter().filter(|connection| is_told(connection)).count(), LEAVING);
    }

    #[tokio::test]
    async fn an_unused_connection_is_closed_after_the_limit() {
        let (all, open) = full(3);
        let busy = work(&open[1]);
        let limit = Duration::from_millis(20);
        let mut end_unused = std::pin::pin!(all.end_unused(limit));
        tokio::select! {
            () = &mut end_unused => {}
            () = async { tokio::join!(open[0].told(), open[2].told()); } => {}
        }
        assert!(!is_told(&open[1]));
        drop(busy);
        tokio::select! {
            () = end_unused => {}
            () = open[1].told() => {}
        }
    }
}
