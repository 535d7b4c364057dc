//! Admission to an instance that serves one calling session at a time.
//!
//! Such a server has sent a request while several sessions had calls with it, and nothing in the request says which
//! session it is for. With calls of one session at a time every request is that session's. The calling session may
//! have several calls in flight; as soon as another session is in the queue, further calls queue up behind it.
//!
//! A `CallerPermit` keeps other sessions out from the admission of a call until the call has begun. From then on the
//! calls of the attachment do.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::oneshot;

use super::Upstream;
use crate::mutex::lock;

/// Admission state of one instance.
#[derive(Debug, Default)]
pub(super) struct SoleCaller {
    /// Client with admitted calls that have not begun yet, and their number.
    entering: Option<(u64, usize)>,
    queue: VecDeque<Waiting>,
}

/// A queued call.
#[derive(Debug)]
struct Waiting {
    client: u64,
    enter: oneshot::Sender<CallerPermit>,
}

/// Right of a client to begin one call, until it is dropped. A call that has begun keeps other sessions out by
/// itself.
#[derive(Debug)]
pub(crate) struct CallerPermit {
    upstream: Arc<Upstream>,
    client: u64,
}

impl Upstream {
    /// Whether the instance serves one calling session at a time.
    pub(crate) fn has_one_caller(&self) -> bool {
        self.has_one_caller.load(Ordering::Relaxed)
    }

    /// Makes the instance serve one calling session at a time. An exclusive instance does so anyway.
    pub(crate) fn serve_one_caller(&self) {
        let is_shared = !self.is_exclusive();
        self.has_one_caller.store(is_shared, Ordering::Relaxed);
    }

    /// Admits a call of this client, if no other session has calls with the instance and the queue is empty.
    pub(crate) fn admit(self: &Arc<Self>, client: u64) -> Option<CallerPermit> {
        let mut sole_caller = lock(&self.sole_caller);
        let is_free = sole_caller.queue.is_empty() && self.is_free_for(client, &sole_caller);
        is_free.then(|| self.enter(client, &mut sole_caller))
    }

    /// Queues a call of this client. The receiver gets the permit when the call is admitted.
    pub(crate) fn queue_up(self: &Arc<Self>, client: u64) -> oneshot::Receiver<CallerPermit> {
        let (enter, admitted) = oneshot::channel();
        lock(&self.sole_caller).queue.push_back(Waiting { client, enter });
        self.advance();
        admitted
    }

    /// Admits the next calls in the queue, after a call has ended or will not begin.
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
            // If the receiver was dropped, so is the permit, which admits the next call.
            let _ = enter.send(permit);
        }
    }

    fn enter(self: &Arc<Self>, client: u64, sole_caller: &mut SoleCaller) -> CallerPermit {
        let before = sole_caller.entering.map_or(0, |(_, calls)| calls);
        sole_caller.entering = Some((client, before + 1));
        CallerPermit { upstream: Arc::clone(self), client }
    }

    /// Whether no other client has calls with the instance or is about to begin one.
    fn is_free_for(&self, client: u64, sole_caller: &SoleCaller) -> bool {
        let is_entered = sole_caller.entering.is_none_or(|(entering, _)| entering == client);
        let attachments = lock(&self.attachments);
        is_entered && !attachments.any(|one| one.client.number() != client && one.is_busy())
    }
}

impl CallerPermit {
    /// Whether the permit is for this instance.
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
