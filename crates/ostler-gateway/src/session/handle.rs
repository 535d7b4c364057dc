//! Where a session is worked at: by its own task, and by whoever brings what its client says.

use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinError;
use tokio::time::{Instant, sleep, timeout};

use super::Session;
use super::aggregate::CatalogChange;
use super::links::TaskOutput;
use crate::catalog::Catalog;
use crate::client::{Client, Memory};
use crate::mutex::lock;
use crate::transport::{ClientMessage, End, ReturnAddress, Source};
use crate::upstream::Upstreams;

/// For answers to calls that were read before the client's input ended.
const LAST_ANSWERS: Duration = Duration::from_millis(1500);
/// Between two looks at calls that may have taken too long, as a part of what they may take.
const LOOKS: u32 = 16;
const SHORTEST_LOOK: Duration = Duration::from_millis(20);

/// A session, as long as it lasts.
pub(crate) struct SessionHandle {
    upstreams: Arc<Upstreams>,
    client: Arc<Client>,
    session: Mutex<Option<Session>>,
    /// There is something else to wait for.
    changed: Notify,
}

/// What a session's task waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct WaitSet {
    has_tasks: bool,
    /// When to look at calls that may have taken too long. One timer for all: most are answered long before.
    look: Option<Instant>,
    changes: Option<CatalogChange>,
}

impl SessionHandle {
    pub(crate) fn new(session: Session) -> Self {
        Self {
            upstreams: Arc::clone(&session.upstreams),
            client: Arc::clone(&session.client),
            session: Mutex::new(Some(session)),
            changed: Notify::new(),
        }
    }

    /// The client says something.
    pub(crate) fn receive(&self, message: ClientMessage, address: ReturnAddress) {
        let is_stirred = self.with(|session| {
            session.receive(message, address);
            session.wait_set != session.next_wait_set()
        });
        if is_stirred == Some(true) {
            self.changed.notify_one();
        }
    }

    /// Serves the client until it has nothing more to say, or `gone` says so.
    pub(crate) async fn serve(&self, mut source: impl Source, gone: impl Future<Output = ()>) {
        self.with(Session::take_up);
        let mut gone = pin!(gone);
        let mut look = pin!(sleep(Duration::ZERO));
        let mut messages = Vec::new();
        let end = loop {
            let wait_set = self.renew_wait_set();
            if let Some(due) = wait_set.look.filter(|due| *due != look.deadline()) {
                look.as_mut().reset(due);
            }
            tokio::select! {
                biased;
                () = &mut gone => break End::Gone,
                output = self.output(), if wait_set.has_tasks => self.finish_task(output),
                heard = source.receive(|message| messages.push(message)) => {
                    self.with(|session| messages.drain(..).for_each(|message| session.receive(message, ReturnAddress::default())));
                    if let Err(end) = heard {
                        break end;
                    }
                }
                () = &mut look, if wait_set.look.is_some() => {
                    self.with(Session::look);
                }
                Some(()) = told(wait_set.changes, &self.upstreams.catalog) => {
                    self.with(Session::on_catalog_change);
                }
                () = self.changed.notified() => {}
            }
        };
        if end == End::Input {
            // What it has asked it may still want to hear.
            let answered = timeout(LAST_ANSWERS, self.answer_the_rest());
            tokio::select! {
                _ = answered => {}
                () = &mut gone => {}
            }
        }
    }

    /// How many requests have no response yet.
    pub(crate) fn open_calls(&self) -> usize {
        self.client.calls().len()
    }

    /// The session is over. Returns what should be known of its client if that comes back.
    pub(crate) fn close(&self) -> Memory {
        let session = lock(&self.session).take();
        let memory = self.client.memory();
        if let Some(session) = session {
            session.close();
        }
        memory
    }

    async fn answer_the_rest(&self) {
        while self.with(|session| session.owes_answers()) == Some(true) {
            let wait_set = self.renew_wait_set();
            tokio::select! {
                output = self.output(), if wait_set.has_tasks => self.finish_task(output),
                () = self.client.settled() => {}
                Some(()) = told(wait_set.changes, &self.upstreams.catalog) => {
                    self.with(Session::on_catalog_change);
                }
            }
        }
        self.client.out.drained().await;
    }

    fn renew_wait_set(&self) -> WaitSet {
        let begin = |session: &mut Session| {
            session.wait_set = session.next_wait_set();
            session.wait_set.clone()
        };
        self.with(begin).unwrap_or_default()
    }

    /// Waits for the next errand that is done.
    async fn output(&self) -> Result<TaskOutput, JoinError> {
        poll_fn(|cx| match self.with(|session| session.tasks.poll_join_next(cx)) {
            Some(Poll::Ready(Some(output))) => Poll::Ready(output),
            Some(Poll::Ready(None) | Poll::Pending) | None => Poll::Pending,
        })
        .await
    }

    fn finish_task(&self, output: Result<TaskOutput, JoinError>) {
        self.with(|session| session.finish_task(output));
    }

    fn with<T>(&self, work: impl FnOnce(&mut Session) -> T) -> Option<T> {
        lock(&self.session).as_mut().map(work)
    }
}

impl Session {
    /// What is to be waited for, as things are now.
    fn next_wait_set(&self) -> WaitSet {
        let wanted = self.client.shortest_limit();
        let wanted = wanted.map(|limit| Instant::now() + (limit / LOOKS).max(SHORTEST_LOOK));
        WaitSet {
            has_tasks: !self.tasks.is_empty(),
            look: self.wait_set.look.into_iter().chain(wanted).min(),
            changes: self.wanted_changes(),
        }
    }

    fn look(&mut self) {
        self.wait_set.look = None;
        self.expire();
    }

    /// Whether it has been asked for something that is not answered yet.
    fn owes_answers(&self) -> bool {
        !self.client.calls().is_empty()
    }
}

impl fmt::Debug for SessionHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Desk").field("client", &self.client).finish_non_exhaustive()
    }
}

/// Waits for news, if any are wanted.
async fn told(changes: Option<CatalogChange>, catalog: &Catalog) -> Option<()> {
    changes?.wait(catalog).await;
    Some(())
}
