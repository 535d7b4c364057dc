//! A client, as servers' tasks know it: where to write to, and what it waits for.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use ostler::Frame;
use ostler::keeper::{Ending, Use};
use tokio::sync::Notify;

use crate::gateway::lock;
use crate::hello::Hello;
use crate::in_flight::InFlight;
use crate::message::{self, code};
use crate::transport::{About, Outlet, Weight};
use crate::upstream::Upstream;

/// One client's side of a session.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) number: u64,
    pub(crate) out: Arc<dyn Outlet>,
    /// What it has said of itself; set by its handshake.
    hello: OnceLock<Hello>,
    is_initialized: AtomicBool,
    log_level: AtomicU8,
    pending: Mutex<HashMap<Bytes, InFlight>>,
    batches: Mutex<Vec<Batch>>,
    settled: Notify,
    asked: Mutex<HashMap<u64, Asked>>,
    last_asked: AtomicU64,
    /// What it wants to hear of. As long as there is anything the instance is in use.
    subscriptions: Mutex<HashMap<Topic, Option<Use>>>,
}

/// A server, and one of its resources.
pub(crate) type Topic = (Arc<str>, String);

/// What a client has said and asked for, if it goes and comes back.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    hello: Option<Hello>,
    is_initialized: bool,
    log_level: u8,
    /// What it wants to hear of.
    pub(crate) topics: Vec<Topic>,
}

/// A request of a server that this client has to answer.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) upstream: Arc<Upstream>,
    /// The server's own id.
    pub(crate) id: Bytes,
    pub(crate) limit: Duration,
    pub(crate) until: Instant,
}

/// The answers to several requests that came as one.
#[derive(Debug)]
struct Batch {
    /// All of them.
    ids: Vec<Bytes>,
    /// Those that have no answer yet.
    open: Vec<Bytes>,
    answers: Vec<Bytes>,
}

impl Client {
    /// One of whom this much is known already.
    pub(crate) fn new(number: u64, out: Arc<dyn Outlet>, memory: Memory) -> Self {
        Self {
            number,
            out,
            hello: memory.hello.map_or_else(OnceLock::new, OnceLock::from),
            is_initialized: AtomicBool::new(memory.is_initialized),
            log_level: AtomicU8::new(memory.log_level),
            pending: Mutex::default(),
            batches: Mutex::default(),
            settled: Notify::new(),
            asked: Mutex::default(),
            last_asked: AtomicU64::new(0),
            subscriptions: Mutex::new(memory.topics.into_iter().map(|one| (one, None)).collect()),
        }
    }

    /// What should be known of it when it comes back.
    pub(crate) fn memory(&self) -> Memory {
        Memory {
            hello: self.hello().cloned(),
            is_initialized: self.is_initialized(),
            log_level: self.log_level(),
            topics: self.subscriptions().keys().cloned().collect(),
        }
    }

    pub(crate) fn hello(&self) -> Option<&Hello> {
        self.hello.get()
    }

    /// False if it has said it before.
    pub(crate) fn introduce(&self, hello: Hello) -> bool {
        self.hello.set(hello).is_ok()
    }

    pub(crate) fn set_initialized(&self) {
        self.is_initialized.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_initialized(&self) -> bool {
        self.is_initialized.load(Ordering::Relaxed)
    }

    /// The least severe level that it wants to hear; 0 is all.
    pub(crate) fn log_level(&self) -> u8 {
        self.log_level.load(Ordering::Relaxed)
    }

    pub(crate) fn set_log_level(&self, level: u8) {
        self.log_level.store(level, Ordering::Relaxed);
    }

    /// Tells it something.
    pub(crate) fn send(&self, line: Bytes, about: About<'_>, weight: Weight) {
        self.out.send(line, about, weight);
    }

    pub(crate) fn fail(&self, id: &[u8], code: i32, message: &str, reason: Option<&str>) {
        self.reply(id, message::error(id, code, message, reason));
    }

    /// Answers a request: alone, or together with those that came with it.
    pub(crate) fn reply(&self, id: &[u8], line: Bytes) {
        let mut batches = lock(&self.batches);
        let Some(index) = batches.iter().position(|batch| batch.open.iter().any(|one| one == id))
        else {
            drop(batches);
            return self.send(line, About::Answer(id), Weight::Needed);
        };
        batches[index].open.retain(|one| one != id);
        batches[index].answers.push(line.slice(..line.len() - 1));
        self.finish_batch(batches, index);
    }

    /// These requests came as one, and are answered as one.
    pub(crate) fn expect_batch(&self, open: Vec<Bytes>) {
        if !open.is_empty() {
            let ids = open.clone();
            lock(&self.batches).push(Batch { ids, open, answers: Vec::new() });
        }
    }

    /// What was cancelled gets no answer.
    pub(crate) fn withdraw(&self, id: &[u8]) {
        self.withdraw_from_batch(id);
        self.out.withdraw(id);
    }

    fn withdraw_from_batch(&self, id: &[u8]) {
        let mut batches = lock(&self.batches);
        let Some(index) = batches.iter().position(|batch| batch.open.iter().any(|one| one == id))
        else {
            return;
        };
        batches[index].open.retain(|one| one != id);
        self.finish_batch(batches, index);
    }

    fn finish_batch(&self, mut batches: MutexGuard<'_, Vec<Batch>>, index: usize) {
        if !batches[index].open.is_empty() {
            return;
        }
        let Batch { ids, answers, .. } = batches.swap_remove(index);
        drop(batches);
        if !answers.is_empty() {
            let line = [&b"["[..], &answers.join(&b","[..]), b"]\n"].concat();
            self.send(line.into(), About::Answers(&ids), Weight::Needed);
        }
    }

    /// Waits until one of its calls has been answered.
    pub(crate) async fn settled(&self) {
        self.settled.notified().await;
    }

    pub(crate) fn pending(&self) -> MutexGuard<'_, HashMap<Bytes, InFlight>> {
        lock(&self.pending)
    }

    /// A server has answered a call, or never will.
    pub(crate) fn answered(&self, id: &Bytes, answer: Result<Frame, Arc<Ending>>) {
        let Some(call) = self.take_pending(id) else { return };
        if let (Ok(answer), Some((_, uri))) = (&answer, &call.subscribes)
            && !answer.is_error()
        {
            call.attachment.upstream.confirm(uri);
        }
        call.settle();
        match answer {
            Ok(answer) => {
                let mut edits = vec![(answer.id_edges(), id.clone())];
                if answer.is_error() {
                    call.expect_completions(&answer);
                }
                if let Some(tools) = &call.filter {
                    let list = answer.bytes().slice(answer.body_edges());
                    edits.push((answer.body_edges(), tools.filter("tools/list", list)));
                }
                self.reply(id, message::splice(answer.bytes(), edits));
            }
            Err(ending) => {
                self.fail(id, code::INTERNAL, &ending.to_string(), Some("upstream_exited"));
            }
        }
        self.settled.notify_one();
    }

    pub(crate) fn take_pending(&self, id: &[u8]) -> Option<InFlight> {
        self.pending().remove(id)
    }

    /// The shortest time that any of its calls, or any question to it, may take.
    pub(crate) fn shortest_limit(&self) -> Option<Duration> {
        let calls = self.pending().values().map(|call| call.limit).min();
        let asked = self.asked().values().map(|asked| asked.limit).min();
        calls.into_iter().chain(asked).min()
    }

    /// What servers have asked it, and it has not answered in time.
    pub(crate) fn take_late_asked(&self, now: Instant) -> Vec<Asked> {
        let mut asked = self.asked();
        let late = asked.iter().filter(|(_, asked)| asked.until <= now);
        let late: Vec<u64> = late.map(|(number, _)| *number).collect();
        late.into_iter().filter_map(|number| asked.remove(&number)).collect()
    }

    /// Those of its calls that have taken too long.
    pub(crate) fn take_late(&self, now: Instant) -> Vec<(Bytes, InFlight)> {
        let mut pending = self.pending();
        let late = pending.iter().filter(|(_, call)| call.until <= now);
        let late: Vec<Bytes> = late.map(|(id, _)| id.clone()).collect();
        late.into_iter().filter_map(|id| pending.remove_entry(&id)).collect()
    }

    /// Asks the client what a server asks.
    pub(crate) fn ask(&self, request: &Frame, upstream: &Arc<Upstream>, limit: Duration) {
        let number = self.last_asked.fetch_add(1, Ordering::Relaxed) + 1;
        let id = request.bytes().slice(request.id_edges());
        let until = Instant::now() + limit;
        let asked = Asked { upstream: Arc::clone(upstream), id, limit, until };
        self.asked().insert(number, asked);
        let edits = vec![(request.id_edges(), message::number(number))];
        let line = message::splice(request.bytes(), edits);
        self.send_about(upstream, line, Weight::Needed);
    }

    /// Tells it what came up in a server, most likely because of what it asked first.
    pub(crate) fn send_about(&self, upstream: &Arc<Upstream>, line: Bytes, weight: Weight) {
        let pending = self.pending();
        let of_it = |call: &InFlight| Arc::ptr_eq(&call.attachment.upstream, upstream);
        let own = pending.iter().filter(|(_, call)| of_it(call));
        let first = own.min_by_key(|(_, call)| call.call).map(|(id, _)| id.clone());
        drop(pending);
        self.send(line, first.as_deref().map_or(About::Nothing, About::Request), weight);
    }

    /// The client has answered what a server asked.
    pub(crate) fn take_asked(&self, answer: &Frame) -> Option<Asked> {
        let number = std::str::from_utf8(answer.id()).ok()?.parse().ok()?;
        self.asked().remove(&number)
    }

    /// What it wants to hear of from a server.
    pub(crate) fn topics(&self, server: &str) -> Vec<Topic> {
        self.subscriptions().keys().filter(|(of, _)| **of == *server).cloned().collect()
    }

    pub(crate) fn subscriptions(&self) -> MutexGuard<'_, HashMap<Topic, Option<Use>>> {
        lock(&self.subscriptions)
    }

    pub(crate) fn asked(&self) -> MutexGuard<'_, HashMap<u64, Asked>> {
        lock(&self.asked)
    }
}
