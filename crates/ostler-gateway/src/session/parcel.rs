//! A request on its way to a server, and where it waits until it is there.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use ostler::Frame;

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
