//! Whose calls an instance takes that serves one calling session at a time.
//!
//! Such a server has asked something while several sessions had calls with it, and nothing in its request says which of
//! them it is for. With the calls of one session at a time it is always that session's. A session that has the floor may
//! have several calls; as soon as another one waits, further calls wait behind that.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::oneshot;

use super::Upstream;
use crate::mutex::lock;

/// Who may begin calls.
#[derive(Debug, Default)]
pub(super) struct SoleCaller {
    /// The client that was let in with calls that it has not begun yet, and with how many.
    entering: Option<(u64, usize)>,
    queue: VecDeque<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    client: u64,
    enter: oneshot::Sender<CallerPermit>,
}

/// The right of a client to begin one call, until it is dropped. A call that has begun keeps the floor by itself.
#[derive(Debug)]
pub(crate) struct CallerPermit {
    upstream: Arc<Upstream>,
    client: u64,
}

impl Upstream {
    /// Whether it serves one calling session at a time.
    pub(crate) fn has_one_caller(&self) -> bool {
        self.has_one_caller.load(Ordering::Relaxed)
    }

    /// From now on it serves one calling session at a time. An instance of one client does so anyway.
    pub(crate) fn serve_one_caller(&self) {
        let is_shared = !self.is_exclusive();
        self.has_one_caller.store(is_shared, Ordering::Relaxed);
    }

    /// Lets a call of this client in, if no other session has calls with the instance or waits.
    pub(crate) fn admit(self: &Arc<Self>, client: u64) -> Option<CallerPermit> {
        let mut sole_caller = lock(&self.sole_caller);
        let is_free = sole_caller.queue.is_empty() && self.is_free_for(client, &sole_caller);
        is_free.then(|| self.enter(client, &mut sole_caller))
    }

    /// A place in the queue for a call of this client, which waits until it is let in.
    pub(crate) fn queue_up(self: &Arc<Self>, client: u64) -> oneshot::Receiver<CallerPermit> {
        let (enter, admitted) = oneshot::channel();
        lock(&self.sole_caller).queue.push_back(Waiting { client, enter });
        self.advance();
        admitted
    }

    /// A call has ended or will not begin: admits the next session in the queue.
    pub(crate) fn advance(self: &Arc<Self>) {
        let mut admitted = Vec::new();
        {
            let mut sole_caller = lock(&self.sole_caller);
            while let Some(next) = sole_caller.queue.front() {
                let is_wanted = !next.enter.is_closed();
                if is_wanted && !self.is_free_for(next.client, &sole_caller) {
                    break;
                }
                let Some(next) = sole_caller.queue.pop_front() else { break };
                if is_wanted {
                    admitted.push((next.enter, self.enter(next.client, &mut sole_caller)));
                }
            }
        }
        for (enter, permit) in admitted {
            // An admission that is not wanted any more is given back when it is dropped.
            let _ = enter.send(permit);
        }
    }

    fn enter(self: &Arc<Self>, client: u64, sole_caller: &mut SoleCaller) -> CallerPermit {
        let before = sole_caller.entering.map_or(0, |(_, calls)| calls);
        sole_caller.entering = Some((client, before + 1));
        CallerPermit { upstream: Arc::clone(self), client }
    }

    /// Whether no other client is about to call, or has calls.
    fn is_free_for(&self, client: u64, sole_caller: &SoleCaller) -> bool {
        let is_entered = sole_caller.entering.is_none_or(|(entering, _)| entering == client);
        let attachments = lock(&self.attachments);
        is_entered && !attachments.any(|one| one.client.number() != client && one.is_busy())
    }
}

impl CallerPermit {
    /// Whether it is for this instance.
    pub(crate) fn is_of(&self, upstream: &Arc<Upstream>) -> bool {
        Arc::ptr_eq(&self.upstream, upstream)
    }
}

impl Drop for CallerPermit {
    fn drop(&mut self) {
        {
            let mut sole_caller = lock(&self.upstream.sole_caller);
            let left = sole_caller.entering.map_or(0, |(_, calls)| calls.saturating_sub(1));
            sole_caller.entering = (left > 0).then_some((self.client, left));
        }
        self.upstream.advance();
    }
}
