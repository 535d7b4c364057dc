//! The roots that all clients of an instance have in common.

use bytes::Bytes;
use ostler::Frame;
use ostler::keeper::Whose;

use super::Upstream;
use crate::mutex::lock;
use crate::protocol::initialize;
use crate::protocol::message::{self, code};
use crate::protocol::roots::RootList;

/// Requests of one server for roots that wait until they are known.
const MOST: usize = 16;

/// What an instance that several clients share is told of their roots.
#[derive(Debug)]
pub(super) enum CommonRoots {
    /// It was started before its clients' roots were known. These requests for them, by the server's own ids, wait.
    Unsettled(Vec<Bytes>),
    Settled(RootList),
}

impl CommonRoots {
    /// Those that clients with this profile have.
    pub(super) fn of(profile: &str) -> Self {
        initialize::roots(profile).map_or(Self::Unsettled(Vec::new()), Self::Settled)
    }
}

impl Upstream {
    /// Answers a server that several clients share with the roots that they have in common. No client is asked.
    pub(super) fn tell_roots(&self, request: &Frame) {
        let key = self.talk.key();
        // Clients that share it with everybody have told it nothing, and have no roots in common.
        if key.whose == Whose::Everybody || !initialize::has_roots(&key.profile) {
            return self.refuse(request, code::METHOD_NOT_FOUND, "its clients share no roots");
        }
        let id = message::request_id(request);
        match &mut *lock(&self.roots) {
            CommonRoots::Settled(roots) => self.say(&answer(&id, roots)),
            CommonRoots::Unsettled(ids) if ids.len() < MOST => ids.push(id),
            CommonRoots::Unsettled(_) => {
                let text = format!("{MOST} requests for roots wait for an answer already");
                self.refuse(request, code::INVALID_REQUEST, &text);
            }
        }
    }

    /// A client with these roots begins to use the instance: from now on only such clients do.
    pub(crate) fn settle_roots(&self, list: &RootList) {
        let mut roots = lock(&self.roots);
        if let CommonRoots::Unsettled(ids) = &mut *roots {
            for id in std::mem::take(ids) {
                self.say(&answer(&id, list));
            }
            *roots = CommonRoots::Settled(RootList::clone(list));
        }
    }

    /// The server does not wait for this answer any more.
    pub(super) fn forget_roots_request(&self, id: &Bytes) {
        if let CommonRoots::Unsettled(ids) = &mut *lock(&self.roots) {
            ids.retain(|waiting| waiting != id);
        }
    }
}

fn answer(id: &[u8], list: &str) -> Bytes {
    message::answer(id, format!(r#"{{"roots":{list}}}"#).as_bytes())
}
