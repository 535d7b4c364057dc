//! One instance, as sessions use it.
//!
//! The keeper runs instances and delivers their messages; this module decides which client gets a message. Each
//! client has an `Attachment` for every instance that it uses. Progress goes to the client of the call, and updates
//! of resources go to their subscribers. Log messages and server requests go to the owner: the only attached client,
//! or the only one with calls in flight. Log messages without an owner are dropped, and server requests without an
//! owner are refused. Changed lists are reported to `Upstreams`, which has them fetched again.

mod attachments;
mod downstream;
mod listed;
mod listing;
mod registry;
mod roots;
mod server_requests;
mod sole_caller;
mod subscribers;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, Weak};

use bytes::Bytes;
use ostler::keeper::{Talk, Whose};
use ostler::{CallId, Frame, Kind};
use tokio::sync::watch;

pub(crate) use self::attachments::Attachment;
use self::attachments::Attachments;
pub(crate) use self::downstream::Downstream;
use self::listed::Listed;
pub(crate) use self::listing::{Attempt, StartFailure};
pub(crate) use self::registry::Upstreams;
use self::roots::CommonRoots;
use self::server_requests::OpenRequest;
pub(crate) use self::server_requests::{SERVER_REQUEST_LIMIT, ServerRequest};
pub(crate) use self::sole_caller::CallerPermit;
use self::sole_caller::SoleCaller;
use self::subscribers::Subscribers;
use crate::mutex::lock;
use crate::protocol::lists::LISTS;
use crate::protocol::log_level;
use crate::protocol::message::{self, code};
use crate::protocol::params;
use crate::transport::Priority;

/// One instance, with its clients and its open requests to them.
pub(crate) struct Upstream {
    talk: Talk,
    /// Result of the handshake.
    initialize: Bytes,
    attachments: Mutex<Attachments>,
    /// Recipients of progress, by the number of the call.
    progress: Mutex<HashMap<u64, Progress>>,
    /// Subscribers by the URI of the resource.
    subscribers: Mutex<BTreeMap<String, Subscribers>>,
    /// Log level that was set last, if any.
    log_level: Mutex<Option<u8>>,
    /// Server requests without a response, by the server's ids.
    open_requests: Mutex<HashMap<Bytes, OpenRequest>>,
    /// Clients with an open URL elicitation, by the server's id of it.
    elicitations: Mutex<HashMap<String, Weak<dyn Downstream>>>,
    roots: Mutex<CommonRoots>,
    has_one_caller: AtomicBool,
    sole_caller: Mutex<SoleCaller>,
    /// List methods of the server that were not called yet.
    unlisted: watch::Sender<Vec<&'static str>>,
    listed: Mutex<Listed>,
}

/// Recipient of the progress of a call.
struct Progress {
    client: Arc<dyn Downstream>,
    /// The client's progress token.
    token: Bytes,
    /// The client's id of the call.
    id: Bytes,
}

/// Effect of a server's message that goes beyond this instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// This list has changed.
    List(&'static str),
    /// Several sessions have calls with the instance, so its request has no single owner. The request is not answered
    /// yet.
    NoOwner,
}

impl Upstream {
    pub(crate) fn new(talk: Talk, initialize: Bytes) -> Self {
        let roots = Mutex::new(CommonRoots::of(&talk.key().profile));
        let mut upstream = Self {
            talk,
            initialize,
            attachments: Mutex::default(),
            progress: Mutex::default(),
            subscribers: Mutex::default(),
            log_level: Mutex::default(),
            open_requests: Mutex::default(),
            elicitations: Mutex::default(),
            roots,
            has_one_caller: AtomicBool::new(false),
            sole_caller: Mutex::default(),
            unlisted: watch::Sender::default(),
            listed: Mutex::default(),
        };
        let lists = LISTS.iter().filter(|(_, capability)| upstream.can(&[capability]));
        upstream.unlisted = watch::Sender::new(lists.map(|(list, _)| *list).collect());
        upstream
    }

    /// Lists of the server that were not fetched yet.
    pub(crate) fn lists(&self) -> Vec<&'static str> {
        self.unlisted.borrow().clone()
    }

    /// Marks a list as fetched.
    pub(crate) fn has_listed(&self, method: &str) {
        self.unlisted.send_modify(|lists| lists.retain(|list| *list != method));
    }

    /// Waits until all lists were fetched.
    pub(crate) async fn listed(&self) {
        // The sender can't close while it is borrowed.
        let _ = self.unlisted.subscribe().wait_for(Vec::is_empty).await;
    }

    pub(crate) fn talk(&self) -> &Talk {
        &self.talk
    }

    pub(crate) fn initialize(&self) -> &Bytes {
        &self.initialize
    }

    /// Whether the server has the capability at `path`.
    pub(crate) fn can(&self, path: &[&str]) -> bool {
        let path: Vec<&str> = std::iter::once("capabilities").chain(path.iter().copied()).collect();
        let found = message::find(&self.initialize, 0..self.initialize.len(), &path);
        found.is_some_and(|edges| !matches!(&self.initialize[edges], b"false" | b"null"))
    }

    /// Whether the server announces changes of this list, so that the catalog's copy stays valid.
    pub(crate) fn vouches_for(&self, list: &str) -> bool {
        let capability = list.split('/').next().unwrap_or_default();
        self.can(&[capability, "listChanged"])
    }

    /// Whether the instance belongs to one session or one call.
    pub(crate) fn is_exclusive(&self) -> bool {
        matches!(self.talk.key().whose, Whose::Session(_) | Whose::Lease(_))
    }

    /// The session that the instance belongs to.
    pub(crate) fn session(&self) -> Option<u64> {
        match self.talk.key().whose {
            Whose::Session(session) => Some(session),
            _ => None,
        }
    }

    /// Attaches a client.
    pub(crate) fn attach(self: &Arc<Self>, client: Arc<dyn Downstream>) -> Arc<Attachment> {
        let attachment = Arc::new(Attachment::new(client, Arc::clone(self)));
        lock(&self.attachments).add(&attachment);
        attachment
    }

    /// Registers the client that gets the progress of a call.
    pub(crate) fn expect_progress(
        &self,
        call: CallId,
        client: &Arc<dyn Downstream>,
        token: Bytes,
        id: Bytes,
    ) {
        let progress = Progress { client: Arc::clone(client), token, id };
        lock(&self.progress).insert(call.number(), progress);
    }

    pub(crate) fn forget_progress(&self, call: CallId) {
        let progress = lock(&self.progress).remove(&call.number());
        drop(progress);
    }

    /// Handles a message of the server that is not a response.
    pub(crate) fn hear(self: &Arc<Self>, message: &Frame) -> Option<Change> {
        let unclear = params::check(message).err().map(|unclear| unclear.to_string());
        match (message.kind(), unclear) {
            (Kind::Notification, None) if !message::is_misnamed(message) => {
                return self.notice(message);
            }
            (Kind::Request, _) if message::is_misnamed(message) => {
                self.refuse(message, code::INVALID_REQUEST, "a notification has no id");
            }
            (Kind::Request, Some(unclear)) => self.refuse(message, code::INVALID_PARAMS, &unclear),
            (Kind::Request, None) if message.method() == b"ping" => {
                self.say(&message::answer(message.id(), b"{}"));
            }
            (Kind::Request, None) => return self.ask(message),
            // Invalid notifications and stray responses are dropped: the server expects no response.
            (Kind::Notification | Kind::Answer, _) => {}
        }
        None
    }

    fn notice(self: &Arc<Self>, message: &Frame) -> Option<Change> {
        match message.method() {
            b"notifications/progress" => self.pass_progress(message),
            b"notifications/message" => self.pass_log(message),
            b"notifications/resources/updated" => self.pass_update(message),
            b"notifications/cancelled" => self.pass_cancel(message),
            b"notifications/elicitation/complete" => self.pass_completion(message),
            b"notifications/tools/list_changed" => return Some(Change::List("tools/list")),
            b"notifications/prompts/list_changed" => return Some(Change::List("prompts/list")),
            b"notifications/resources/list_changed" => return Some(Change::List("resources/list")),
            _ => {
                // With several clients an unknown notification has no single owner.
                if let Some(only) = self.only_one() {
                    only.send(message.line(), Priority::Droppable);
                }
            }
        }
        None
    }

    /// Answers a request of the server with an error.
    fn refuse(&self, request: &Frame, code: i32, text: &str) {
        self.say(&message::error(request.id(), code, text, None));
    }

    /// Sends the server a response or a notification.
    pub(crate) fn say(&self, line: &[u8]) {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        if let Ok(message) = Frame::parse(Bytes::copy_from_slice(line)) {
            // An instance that has ended needs no message.
            let _ = self.talk.notify(&message);
        }
    }

    fn pass_progress(&self, message: &Frame) {
        let Some(edges) = message::param(message, &["progressToken"]) else { return };
        let token = &message.bytes()[edges.clone()];
        let number = std::str::from_utf8(token).ok().and_then(|t| t.trim_matches('"').parse().ok());
        let progress = lock(&self.progress);
        let Some(progress) = number.and_then(|number: u64| progress.get(&number)) else { return };
        progress.client.prolong(&progress.id);
        let line = message::splice(message.bytes(), vec![(edges, progress.token.clone())]);
        progress.client.send(line, Some(&progress.id), Priority::Droppable);
    }

    fn pass_log(&self, message: &Frame) {
        let level = message::text_param(message, &["level"]);
        let level = level.as_deref().and_then(log_level::severity).unwrap_or(u8::MAX);
        // A log message on behalf of one client must not reach another one.
        if let Some(owner) = self.owner().filter(|owner| level >= owner.client.log_level()) {
            owner.send(message.line(), Priority::Droppable);
        }
    }

    /// Sends the server a request without waiting for the response.
    pub(crate) fn request(&self, method: &str, params: &str) {
        let id = format!("ostler-{method}");
        let line =
            format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"{method}","params":{params}}}"#);
        if let Ok(frame) = Frame::parse(line) {
            let _ = self.talk.say(&frame);
        }
    }

    /// The least severe log level that a client wants, if it is not the one that was set last.
    pub(crate) fn merge_log_level(&self) -> Option<u8> {
        let wanted = lock(&self.attachments).all().map(|one| one.client.log_level()).min()?;
        let mut level = lock(&self.log_level);
        if *level == Some(wanted) {
            return None;
        }
        *level = Some(wanted);
        Some(wanted)
    }
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream").field("talk", &self.talk).finish_non_exhaustive()
    }
}
