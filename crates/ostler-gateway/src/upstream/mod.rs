//! An instance, as clients' sessions know it: who uses it, and who gets what it says.

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

/// One instance.
pub(crate) struct Upstream {
    talk: Talk,
    /// What it answered to the handshake.
    initialize: Bytes,
    attachments: Mutex<Attachments>,
    progress: Mutex<HashMap<u64, Progress>>,
    /// Who wants to hear of changes of which resource.
    subscribers: Mutex<BTreeMap<String, Subscribers>>,
    log_level: Mutex<Option<u8>>,
    /// What it has asked its clients, by its own ids.
    open_requests: Mutex<HashMap<Bytes, OpenRequest>>,
    /// Who was sent elsewhere, by the server's own name for that.
    elicitations: Mutex<HashMap<String, Weak<dyn Downstream>>>,
    roots: Mutex<CommonRoots>,
    has_one_caller: AtomicBool,
    sole_caller: Mutex<SoleCaller>,
    /// Its lists that were not asked for yet.
    unlisted: watch::Sender<Vec<&'static str>>,
    listed: Mutex<Listed>,
}

/// Who gets the progress of a call.
struct Progress {
    client: Arc<dyn Downstream>,
    /// The client's own token.
    token: Bytes,
    /// The client's own id of the call.
    id: Bytes,
}

/// What a message is about, if the gateway has to do something about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// One of its lists is different.
    List(&'static str),
    /// Several sessions have calls with it, and nothing says whose its request is, which is not answered yet.
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

    /// The lists that it has and that were not asked for yet.
    pub(crate) fn lists(&self) -> Vec<&'static str> {
        self.unlisted.borrow().clone()
    }

    /// It has been asked for a list.
    pub(crate) fn has_listed(&self, method: &str) {
        self.unlisted.send_modify(|lists| lists.retain(|list| *list != method));
    }

    /// Waits until it has been asked for each of its lists.
    pub(crate) async fn listed(&self) {
        // It can't close while it is borrowed.
        let _ = self.unlisted.subscribe().wait_for(Vec::is_empty).await;
    }

    pub(crate) fn talk(&self) -> &Talk {
        &self.talk
    }

    pub(crate) fn initialize(&self) -> &Bytes {
        &self.initialize
    }

    /// Whether it has said under `path` that it can do something.
    pub(crate) fn can(&self, path: &[&str]) -> bool {
        let path: Vec<&str> = std::iter::once("capabilities").chain(path.iter().copied()).collect();
        let found = message::find(&self.initialize, 0..self.initialize.len(), &path);
        found.is_some_and(|edges| !matches!(&self.initialize[edges], b"false" | b"null"))
    }

    /// Whether it says by itself when one of its lists has changed, so that what is known stays true.
    pub(crate) fn vouches_for(&self, list: &str) -> bool {
        let capability = list.split('/').next().unwrap_or_default();
        self.can(&[capability, "listChanged"])
    }

    /// Whether it belongs to one client alone.
    pub(crate) fn is_exclusive(&self) -> bool {
        matches!(self.talk.key().whose, Whose::Session(_) | Whose::Lease(_))
    }

    /// A client begins to use it.
    pub(crate) fn attach(self: &Arc<Self>, client: Arc<dyn Downstream>) -> Arc<Attachment> {
        let attachment = Arc::new(Attachment::new(client, Arc::clone(self)));
        lock(&self.attachments).add(&attachment);
        attachment
    }

    /// Passes the progress of a call on to its client.
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

    /// A message that is no answer.
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
            // It expects no answer, and is nothing that could be passed on.
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
                // On a shared instance it has no single owner.
                if let Some(only) = self.only_one() {
                    only.send(message.line(), Priority::Droppable);
                }
            }
        }
        None
    }

    /// Answers a request of the server that is not passed on.
    fn refuse(&self, request: &Frame, code: i32, text: &str) {
        self.say(&message::error(request.id(), code, text, None));
    }

    /// Answers, or says something without being asked.
    pub(crate) fn say(&self, line: &[u8]) {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        if let Ok(message) = Frame::parse(Bytes::copy_from_slice(line)) {
            // A server that has gone needs no answer.
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
        // What was said on behalf of one client is no other's business.
        if let Some(owner) = self.owner().filter(|owner| level >= owner.client.log_level()) {
            owner.send(message.line(), Priority::Droppable);
        }
    }

    /// Asks for something without waiting for the answer.
    pub(crate) fn request(&self, method: &str, params: &str) {
        let id = format!("ostler-{method}");
        let line =
            format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"{method}","params":{params}}}"#);
        if let Ok(frame) = Frame::parse(line) {
            let _ = self.talk.say(&frame);
        }
    }

    /// The level that has to be asked for so that everybody hears what they want, if it is another one
    /// than before.
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
