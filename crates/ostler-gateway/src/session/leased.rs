//! Instances that a session has a lease on, and the calls that it sends them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ostler::Frame;
use ostler::keeper::{CallError, Lease, Turn};
use tokio::task::AbortHandle;

use super::request::ClientRequest;
use crate::client::{Client, InFlight};
use crate::protocol::lists::{LIST_LIMIT, LISTS};
use crate::protocol::log_level;
use crate::protocol::message;
use crate::tools::Tools;
use crate::upstream::{Attachment, CallerPermit, Downstream as _};

/// An instance that the session has a lease on.
#[derive(Clone)]
pub(super) struct LeasedInstance {
    pub(super) lease: Lease,
    pub(super) client: Arc<Client>,
    pub(super) attachment: Arc<Attachment>,
    /// Time limit of a call to this server.
    pub(super) limit: Duration,
    /// Tools that the configuration allows.
    pub(super) tools: Arc<Tools>,
    /// Aborts the task that waits for the end of the instance; that task holds the lease as well.
    pub(super) watch: Option<AbortHandle>,
}

/// Permits that a call needs to begin at an instance.
pub(super) struct CallPermit {
    pub(super) turn: Turn,
    /// For an instance that serves one calling session at a time.
    pub(super) caller_permit: Option<CallerPermit>,
}

impl LeasedInstance {
    /// Permit for a call of this client, if it is free now.
    pub(super) fn try_permit(&self) -> Option<CallPermit> {
        let upstream = &self.attachment.upstream;
        let caller_permit = if upstream.has_one_caller() {
            Some(upstream.admit(self.client.number())?)
        } else {
            None
        };
        Some(CallPermit { turn: self.lease.try_turn()?, caller_permit })
    }

    /// Stops waiting for the end of the instance.
    pub(super) fn unwatch(&self) {
        if let Some(watch) = &self.watch {
            watch.abort();
        }
    }

    pub(super) fn send(&self, request: &ClientRequest, turn: Turn) -> Result<(), CallError> {
        let frame = &request.frame;
        let id = request.id();
        let token = request.found.token.clone();
        let limit = if is_list(frame) { self.limit.min(LIST_LIMIT) } else { self.limit };
        let reply = {
            let (client, id) = (Arc::clone(&self.client), id.clone());
            move |answer| client.answered(&id, answer)
        };
        let line = |call| {
            let mut edits = request.edits.clone();
            edits.push((frame.id_edges(), message::number(call)));
            let Attachment { client, upstream, .. } = &*self.attachment;
            if let Some(edges) = token.clone() {
                let own = request.charge.detached(frame.bytes().slice(edges.clone()));
                upstream.expect_progress(call, client, own, id.clone());
                edits.push((edges, message::number(call)));
            }
            let line = message::splice(frame.bytes(), edits);
            let (line, charge) = Arc::clone(&request.charge).carry(line, &id);
            let since = Instant::now();
            self.attachment.begin(call, id.clone());
            let in_flight = InFlight {
                lease: self.lease.clone(),
                attachment: Arc::clone(&self.attachment),
                call,
                charge,
                has_progress: token.is_some(),
                filter: filter_for(frame, &self.tools),
                subscribes: request.subscribes.clone(),
                task_of: request.task_of.clone(),
                heard: self.lease.heard(),
                limit,
                since,
                until: since + limit,
            };
            self.client.calls().begin(&id, in_flight);
            line
        };
        let sent = self.lease.begin(turn, line, reply);
        if sent.is_err() {
            let call = self.client.calls().take_back(&id);
            call.inspect(|call| call.settle(&self.client));
        }
        sent.map(|_| ())
    }
}

fn is_list(frame: &Frame) -> bool {
    LISTS.iter().any(|(list, _)| list.as_bytes() == frame.method())
}

/// Filter for a list that comes from the server itself, and may have tools that the configuration denies.
fn filter_for(frame: &Frame, tools: &Arc<Tools>) -> Option<Arc<Tools>> {
    let matters = !tools.is_everything() && frame.method() == b"tools/list";
    matters.then(|| Arc::clone(tools))
}

/// Sends the server the least severe log level that one of its clients wants, if that has changed.
pub(super) fn merge_levels(leased: &LeasedInstance) {
    let upstream = &leased.attachment.upstream;
    if upstream.can(&["logging"])
        && let Some(level) = upstream.merge_log_level()
    {
        let params = format!(r#"{{"level":"{}"}}"#, log_level::name(level));
        upstream.request("logging/setLevel", &params);
    }
}
