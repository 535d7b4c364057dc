//! The clients that use an instance.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};

use bytes::Bytes;
use ostler::CallId;

use super::{Downstream, Upstream};
use crate::mutex::lock;
use crate::transport::Priority;

/// How many more there may be than at the last look before those that have gone are removed.
const SPARE: usize = 16;

/// A client's use of one instance.
#[derive(Debug)]
pub(crate) struct Attachment {
    pub(crate) client: Arc<dyn Downstream>,
    pub(crate) upstream: Arc<Upstream>,
    /// Its calls that are with the instance, the oldest first, by the client's ids.
    calls: Mutex<BTreeMap<CallId, Bytes>>,
}

impl Attachment {
    pub(crate) fn new(client: Arc<dyn Downstream>, upstream: Arc<Upstream>) -> Self {
        Self { client, upstream, calls: Mutex::default() }
    }

    /// A call is with the instance from now on.
    pub(crate) fn begin(&self, call: CallId, id: Bytes) {
        lock(&self.calls).insert(call, id);
    }

    /// A call is no longer with the instance.
    pub(crate) fn end(&self, call: CallId) {
        lock(&self.calls).remove(&call);
    }

    /// Whether the client waits for the instance.
    pub(crate) fn is_busy(&self) -> bool {
        !lock(&self.calls).is_empty()
    }

    /// Tells the client what came up in the instance, most likely because of what it asked first.
    pub(crate) fn send(&self, line: Bytes, weight: Priority) {
        let first = lock(&self.calls).first_key_value().map(|(_, id)| id.clone());
        self.client.send(line, first.as_deref(), weight);
    }
}

/// The clients that use an instance.
#[derive(Debug, Default)]
pub(super) struct Attachments {
    all: Vec<Weak<Attachment>>,
    /// With so many, those that have gone are removed.
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

    /// Those that are there.
    pub(super) fn all(&self) -> impl Iterator<Item = Arc<Attachment>> {
        self.all.iter().filter_map(Weak::upgrade)
    }

    /// Whether there is one of which this is true.
    pub(super) fn any(&self, is: impl Fn(&Attachment) -> bool) -> bool {
        self.all().any(|one| is(&one))
    }

    /// The one that was added last.
    pub(super) fn last(&self) -> Option<Arc<Attachment>> {
        self.all.iter().rev().find_map(Weak::upgrade)
    }

    /// The only one of which this is true.
    pub(super) fn only(&self, is: impl Fn(&Attachment) -> bool) -> Option<Arc<Attachment>> {
        let mut found = self.all().filter(|one| is(one));
        found.next().filter(|_| found.next().is_none())
    }
}
