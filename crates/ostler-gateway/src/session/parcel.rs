//! A request on its way to a server, and where it waits until it is there.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use ostler::Frame;
use tokio::task::AbortHandle;

use crate::client::Topic;
use crate::protocol::params::{self, Found, Unclear};
use crate::protocol::uris::Style;
use crate::quota::Charge;

/// A request on its way, with what has to be changed in it.
///
/// It is moved several times for each call. So what few requests have is in boxes.
#[derive(Debug)]
pub(super) struct Parcel {
    /// The client's own id of it.
    id: Bytes,
    pub(super) frame: Frame,
    /// Its bytes count as long as it waits.
    pub(super) charge: Arc<Charge>,
    pub(super) found: Found,
    pub(super) edits: Vec<(Range<usize>, Bytes)>,
    /// The resource that it is about, if it subscribes or unsubscribes.
    pub(super) subject: Option<Box<(Topic, Style)>>,
    /// What it subscribes to, once that is noted at the server's instance.
    pub(super) subscribes: Option<Box<Topic>>,
    /// The server that makes a task of it, for a client that sees all servers as one.
    pub(super) task_of: Option<Arc<str>>,
    /// Whether its session has taken another lease for it, because other sessions had calls with the instance.
    pub(super) has_moved: bool,
}

impl Parcel {
    /// A request whose parameters mean the same to every server.
    pub(super) fn new(id: Bytes, frame: Frame, charge: Arc<Charge>) -> Result<Self, Unclear> {
        let found = params::check(&frame)?;
        let (edits, subject, subscribes, task_of) = (Vec::new(), None, None, None);
        let has_moved = false;
        Ok(Self { id, frame, charge, found, edits, subject, subscribes, task_of, has_moved })
    }

    /// The client's own id of it.
    pub(super) fn id(&self) -> Bytes {
        self.id.clone()
    }
}

/// Requests that wait for one server, in their order.
pub(super) type Queue = BTreeMap<u64, Parcel>;

/// Where each request of a client is that no server has yet. Whatever changes one of these places changes this as well.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    locations: HashMap<Bytes, Location>,
    last: u64,
}

/// Where a request waits.
#[derive(Debug)]
pub(super) enum Location {
    /// In the queue of this server, under this number.
    Queue(Arc<str>, u64),
    /// For what servers have, under this number.
    Aggregation(u64),
    /// For something that is for this request alone.
    TaskOutput(AbortHandle),
}

impl Waiting {
    pub(super) fn is_empty(&self) -> bool {
        self.locations.is_empty()
    }

    pub(super) fn contains(&self, id: &[u8]) -> bool {
        !self.locations.is_empty() && self.locations.contains_key(id)
    }

    pub(super) fn get(&self, id: &[u8]) -> Option<&Location> {
        self.locations.get(id)
    }

    pub(super) fn remove(&mut self, id: &[u8]) {
        self.locations.remove(id);
    }

    /// A request waits in a place that has this number.
    pub(super) fn insert(&mut self, id: Bytes, location: impl FnOnce(u64) -> Location) -> u64 {
        self.last += 1;
        self.locations.insert(id, location(self.last));
        self.last
    }
}
