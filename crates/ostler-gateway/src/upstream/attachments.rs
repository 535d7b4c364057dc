//! Clients that are attached to an instance.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};

use bytes::Bytes;
use ostler::CallId;

use super::{Downstream, Upstream};
use crate::mutex::lock;
use crate::transport::Priority;

/// Growth beyond twice the attached clients before entries of detached ones are removed.
const SPARE: usize = 16;

/// One client's use of one instance.
#[derive(Debug)]
pub(crate) struct Attachment {
    pub(crate) client: Arc<dyn Downstream>,
    pub(crate) upstream: Arc<Upstream>,
    /// The client's calls in flight at the instance, the oldest first, with the client's ids.
    calls: Mutex<BTreeMap<CallId, Bytes>>,
}

impl Attachment {
    pub(crate) fn new(client: Arc<dyn Downstream>, upstream: Arc<Upstream>) -> Self {
        Self { client, upstream, calls: Mutex::default() }
    }

    /// Adds a call that is sent to the instance.
    pub(crate) fn begin(&self, call: CallId, id: Bytes) {
        lock(&self.calls).insert(call, id);
    }

    /// Removes a call that has ended.
    pub(crate) fn end(&self, call: CallId) {
        lock(&self.calls).remove(&call);
    }

    /// Whether the client has calls in flight at the instance.
    pub(crate) fn is_busy(&self) -> bool {
        !lock(&self.calls).is_empty()
    }

    /// Sends the client a message of the instance, as related to its oldest call, which is the most likely cause.
    pub(crate) fn send(&self, line: Bytes, weight: Priority) {
        let first = lock(&self.calls).first_key_value().map(|(_, id)| id.clone());
        self.client.send(line, first.as_deref(), weight);
    }
}

/// Clients that are attached to an instance.
#[derive(Debug, Default)]
pub(super) struct Attachments {
    all: Vec<Weak<Attachment>>,
    /// Length at which entries of detached clients are removed.
    most: usize,
}

impl Attachments {
    pub(super) fn add(&mut self, attachment: &Arc<Attachment>) {
        if self.all.len() >= self.most {
            self.all.retain(|one| one.strong_count() > 0);
            self.most = 2 * self.all.len() + SPARE;
        }
        self.all.push(Arc::downgrade(attachment));
    }

    /// All attached clients.
    pub(super) fn all(&self) -> impl Iterator<Item = Arc<Attachment>> {
        self.all.iter().filter_map(Weak::upgrade)
    }

    /// Whether an attached client satisfies `is`.
    pub(super) fn any(&self, is: impl Fn(&Attachment) -> bool) -> bool {
        self.all().any(|one| is(&one))
    }

    /// The client that was attached last.
    pub(super) fn last(&self) -> Option<Arc<Attachment>> {
        self.all.iter().rev().find_map(Weak::upgrade)
    }

    /// The only attached client that satisfies `is`.
    pub(super) fn only(&self, is: impl Fn(&Attachment) -> bool) -> Option<Arc<Attachment>> {
        let mut found = self.all().filter(|one| is(one));
        found.next().filter(|_| found.next().is_none())
    }
}
