//! Requests of the client on their way to a server.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use ostler::Frame;

use crate::client::Topic;
use crate::protocol::params::{self, Found, Unclear};
use crate::protocol::uris::Style;
use crate::quota::Charge;

/// A request of the client on its way to a server, with its edits.
///
/// Requests are moved several times for each call, so parts that few requests have are boxed.
#[derive(Debug)]
pub(super) struct ClientRequest {
    /// The client's id of the request.
    id: Bytes,
    pub(super) frame: Frame,
    /// Charge for the request's bytes while it waits.
    pub(super) charge: Arc<Charge>,
    pub(super) found: Found,
    /// Byte ranges of the frame, and their replacements.
    pub(super) edits: Vec<(Range<usize>, Bytes)>,
    /// Resource that the request subscribes to or unsubscribes from.
    pub(super) subject: Option<Box<(Topic, Style)>>,
    /// Topic that the request subscribes to, once the client is a subscriber at the instance.
    pub(super) subscribes: Option<Box<Topic>>,
    /// Server that runs the request as a task, for a client that sees all servers as one.
    pub(super) task_of: Option<Arc<str>>,
    /// Whether the session took another lease for this request, because other sessions had calls with the instance.
    pub(super) has_moved: bool,
}

impl ClientRequest {
    /// Makes a request, unless servers could read the parameters in different ways.
    pub(super) fn new(id: Bytes, frame: Frame, charge: Arc<Charge>) -> Result<Self, Unclear> {
        let found = params::check(&frame)?;
        let (edits, subject, subscribes, task_of) = (Vec::new(), None, None, None);
        let has_moved = false;
        Ok(Self { id, frame, charge, found, edits, subject, subscribes, task_of, has_moved })
    }

    /// The client's id of the request.
    pub(super) fn id(&self) -> Bytes {
        self.id.clone()
    }

    pub(super) fn is_handshake(&self) -> bool {
        self.frame.method() == b"initialize"
    }
}
