//! A call that is with a server, and what goes with it.

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

/// A call that is with a server.
#[derive(Debug)]
pub(crate) struct InFlight {
    pub(crate) lease: Lease,
    pub(crate) attachment: Arc<Attachment>,
    pub(crate) call: CallId,
    /// Its bytes, if they count until it is answered.
    #[expect(dead_code, reason = "held until it is dropped")]
    pub(crate) charge: Option<Arc<Charge>>,
    pub(crate) has_progress: bool,
    /// What may not be in its answer.
    pub(crate) filter: Option<Arc<Tools>>,
    /// What it subscribes to.
    pub(crate) subscribes: Option<Box<Topic>>,
    /// The server that makes a task of it, for a client that sees all servers as one.
    pub(crate) task_of: Option<Arc<str>>,
    /// How many messages the server had sent when it began.
    pub(crate) heard: u64,
    pub(crate) limit: Duration,
    pub(crate) since: Instant,
    pub(crate) until: Instant,
}

/// What has to be done elsewhere before a call can be answered.
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
    /// It is over, in whatever way. `client` is the one whose call it was.
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

    /// An error may say that something has to be done elsewhere first.
    pub(crate) fn expect_completions(&self, answer: &Frame) {
        let error: Result<Elsewhere, _> = serde_json::from_slice(answer.body());
        let Some(error) = error.ok().filter(|error| error.code == code::ELSEWHERE) else { return };
        let Attachment { client, upstream, .. } = &*self.attachment;
        for elicitation in error.data.elicitations {
            upstream.expect_completion(elicitation.elicitation_id, client);
        }
    }
}
