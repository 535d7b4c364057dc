//! Calls in flight.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ostler::keeper::Lease;
use ostler::{CallId, Frame};
use serde::Deserialize;

use super::{Client, Topic};
use crate::protocol::message::code;
use crate::quota::Charge;
use crate::tools::Tools;
use crate::upstream::{Attachment, Downstream};

/// A call that was sent to a server and has no response yet.
#[derive(Debug)]
pub(crate) struct InFlight {
    pub(crate) lease: Lease,
    pub(crate) attachment: Arc<Attachment>,
    pub(crate) call: CallId,
    /// Charge for the request's bytes, if they count until the response.
    #[expect(dead_code, reason = "held until it is dropped")]
    pub(crate) charge: Option<Arc<Charge>>,
    pub(crate) has_progress: bool,
    /// Filter for a tool list in the response.
    pub(crate) filter: Option<Arc<Tools>>,
    /// Topic that the call subscribes to.
    pub(crate) subscribes: Option<Box<Topic>>,
    /// Server that runs the call as a task, for a client that sees all servers as one.
    pub(crate) task_of: Option<Arc<str>>,
    /// Number of messages that the server had sent when the call began.
    pub(crate) heard: u64,
    /// Time limit from the start of the call, or from the last progress.
    pub(crate) limit: Duration,
    /// Time when the call was sent.
    pub(crate) since: Instant,
    /// Deadline, which progress extends.
    pub(crate) until: Instant,
}

/// Error of a server that can answer the call only after the user has completed URL elicitations.
#[derive(Deserialize)]
struct Elsewhere {
    code: i32,
    data: Elicitations,
}

#[derive(Deserialize)]
struct Elicitations {
    elicitations: Vec<Elicitation>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Elicitation {
    elicitation_id: String,
}

impl InFlight {
    /// Cleans up after the call, however it ended. `client` is the one that sent it.
    pub(crate) fn settle(&self, client: &Client) {
        self.attachment.end(self.call);
        let upstream = &self.attachment.upstream;
        if self.has_progress {
            upstream.forget_progress(self.call);
        }
        if let Some(topic) =
            self.subscribes.as_ref().filter(|topic| !upstream.is_confirmed(&topic.1))
        {
            upstream.unsubscribe(&topic.1, client.number());
            client.subscriptions().remove(topic);
        }
        if upstream.has_one_caller() {
            upstream.advance();
        }
    }

    /// If the error asks for URL elicitations, registers the client for their completion.
    pub(crate) fn expect_completions(&self, answer: &Frame) {
        let error: Result<Elsewhere, _> = serde_json::from_slice(answer.body());
        let Some(error) = error.ok().filter(|error| error.code == code::ELSEWHERE) else { return };
        let Attachment { client, upstream, .. } = &*self.attachment;
        for elicitation in error.data.elicitations {
            upstream.expect_completion(elicitation.elicitation_id, client);
        }
    }
}
