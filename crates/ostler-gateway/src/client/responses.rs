//! Responses: of servers to calls in flight, and of the gateway itself.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ostler::keeper::{Ending, Lease};
use ostler::{CallId, Frame};
use serde::Deserialize;

use super::calls::{Call, Delivery};
use super::{Client, Topic};
use crate::failure;
use crate::protocol::message::{self, code};
use crate::quota::Charge;
use crate::tools::Tools;
use crate::transport::{Destination, Priority, ReturnAddress};
use crate::upstream::{Attachment, Downstream as _, StartFailure};

/// Error text in place of a response when the clients of a principal leave too many bytes unread.
const UNREAD: &str = "the answer is lost: too many bytes of answers wait for clients to read them";

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

impl Client {
    pub(crate) fn fail(&self, id: &[u8], code: i32, message: &str, reason: Option<&str>) {
        self.reply(id, message::error(id, code, message, reason));
    }

    /// Responds that the server of the request is not available, with details for programs.
    pub(crate) fn fail_to_start(&self, id: &[u8], failure: &StartFailure) {
        let StartFailure { text, details } = failure;
        self.reply(id, message::error_with(id, code::INTERNAL, text, Some(details.clone())));
    }

    /// Responds to a request and closes its call. A response that belongs to no open call goes to the default
    /// address, which is the pipe.
    pub(crate) fn reply(&self, id: &[u8], line: Bytes) {
        let closed = self.calls().close(id);
        match closed {
            Some(call) => self.respond(id, &call, line),
            None => self.refuse(&ReturnAddress::default(), 1, line),
        }
    }

    fn respond(&self, id: &[u8], call: &Call, line: Bytes) {
        let delivery = self.calls().deliver(call, Some(line));
        self.carry_out(delivery, id);
    }

    /// Responds to a message none of whose requests was opened.
    pub(crate) fn refuse(&self, address: &ReturnAddress, requests: usize, line: Bytes) {
        let delivery = Delivery::Now { line: Some(line), stream: address.stream, requests };
        self.carry_out(delivery, b"");
    }

    /// Closes a call without a response, because the client has cancelled it.
    pub(crate) fn withdraw(&self, id: &[u8]) {
        let delivery = {
            let mut calls = self.calls();
            calls.close(id).map(|call| calls.deliver(&call, None))
        };
        if let Some(delivery) = delivery {
            self.carry_out(delivery, id);
        }
    }

    /// Sends a response, which is charged until the client has read it. If too many bytes are unread, sends an error
    /// instead.
    fn carry_out(&self, delivery: Delivery, id: &[u8]) {
        match delivery {
            Delivery::Later => {}
            Delivery::Now { line: None, stream, requests } => self.out.withdraw(stream, requests),
            Delivery::Now { line: Some(line), stream, requests } => {
                let id = if requests == 1 { id } else { b"" };
                let unread = || message::error(id, code::INTERNAL, UNREAD, Some("busy"));
                let line = self.account.hold(line).unwrap_or_else(unread);
                let to = Destination::Response { stream, requests };
                self.out.send(line, to, Priority::Required);
            }
        }
    }

    /// Handles the response of a server to a call, or the end of the server without one.
    pub(crate) fn answered(&self, id: &Bytes, answer: Result<Frame, Arc<Ending>>) {
        let Some((open, call)) = self.calls().close_in_flight(id) else { return };
        if let (Ok(answer), Some((_, uri))) = (&answer, call.subscribes.as_deref())
            && !answer.is_error()
        {
            call.attachment.upstream.confirm(uri);
        }
        call.settle(self);
        let line = match answer {
            Ok(answer) => {
                self.note_task(&call, &answer);
                let mut edits = vec![(answer.id_edges(), id.clone())];
                if answer.is_error() {
                    call.expect_completions(&answer);
                }
                if let Some(tools) = &call.filter {
                    let list = answer.bytes().slice(answer.body_edges());
                    edits.push((answer.body_edges(), tools.filter("tools/list", list)));
                }
                message::splice(answer.bytes(), edits)
            }
            Err(ending) => {
                let (text, details) = failure::explain(&ending, "upstream_exited");
                message::error_with(id, code::INTERNAL, &text, Some(details))
            }
        };
        self.respond(id, &open, line);
        self.settled.notify_one();
    }

    /// If the response is a task, stores the server that runs it.
    fn note_task(&self, call: &InFlight, answer: &Frame) {
        if let Some(server) = &call.task_of
            && let Some(task) = message::text_param(answer, &["task", "taskId"])
        {
            self.tasks().insert(task, Arc::clone(server));
        }
    }
}
