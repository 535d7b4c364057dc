//! Roots that all clients of a shared instance have in common.

use bytes::Bytes;
use ostler::Frame;
use ostler::keeper::Whose;

use super::Upstream;
use crate::mutex::lock;
use crate::protocol::initialize;
use crate::protocol::message::{self, code};
use crate::protocol::roots::RootList;

/// Most `roots/list` requests of one instance that wait until the roots are known.
const MOST: usize = 16;

/// Roots of the clients that share an instance.
#[derive(Debug)]
pub(super) enum CommonRoots {
    /// The instance was started before its clients' roots were known. These `roots/list` requests wait, by the
    /// server's ids.
    Unsettled(Vec<Bytes>),
    Settled(RootList),
}

impl CommonRoots {
    /// Roots of clients with this profile.
    pub(super) fn of(profile: &str) -> Self {
        initialize::roots(profile).map_or(Self::Unsettled(Vec::new()), Self::Settled)
    }
}

impl Upstream {
    /// Answers `roots/list` of a shared instance with the roots that its clients have in common. No client is asked.
    pub(super) fn tell_roots(&self, request: &Frame) {
        let key = self.talk.key();
        // An instance for all clients was told no client's capabilities, and its clients have no common roots.
        if key.whose == Whose::AllCallers || !initialize::has_roots(&key.profile) {
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

    /// Settles the roots when a client with these roots begins to use the instance: from now on only such clients do.
    pub(crate) fn settle_roots(&self, list: &RootList) {
        let mut roots = lock(&self.roots);
        if let CommonRoots::Unsettled(ids) = &mut *roots {
            for id in std::mem::take(ids) {
                self.say(&answer(&id, list));
            }
            *roots = CommonRoots::Settled(RootList::clone(list));
        }
    }

    /// Drops a waiting `roots/list` request that the server has cancelled.
    pub(super) fn forget_roots_request(&self, id: &Bytes) {
        if let CommonRoots::Unsettled(ids) = &mut *lock(&self.roots) {
            ids.retain(|waiting| waiting != id);
        }
    }
}

fn answer(id: &[u8], list: &str) -> Bytes {
    message::answer(id, format!(r#"{{"roots":{list}}}"#).as_bytes())
}
