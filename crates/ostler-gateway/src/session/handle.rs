//! Shared access to a session.
//!
//! Two parties use a session: its own task (`serve`), which reads the client's pipe if there is one, collects
//! finished tasks and checks deadlines, and the HTTP connections of the client, which call `receive`. Both lock the
//! session for short synchronous steps and never across an await.
//!
//! Before each wait the task stores its `WaitSet` in the session. `receive` compares it with what the session needs
//! after the message, and wakes the task only if they differ, so most requests cost no wake-up. `close` takes the
//! session out of the handle; later calls do nothing.

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

/// Time for responses to requests that were read before the client's input ended.
const LAST_ANSWERS: Duration = Duration::from_millis(1500);
/// Number of deadline checks within the shortest time limit of a call.
const LOOKS: u32 = 16;
/// Shortest interval between two deadline checks.
const SHORTEST_LOOK: Duration = Duration::from_millis(20);

/// Access to one session, shared by its task and the HTTP connections of its client.
pub(crate) struct SessionHandle {
    upstreams: Arc<Upstreams>,
    client: Arc<Client>,
    /// `None` once the session is closed.
    session: Mutex<Option<Session>>,
    /// Wakes the session's task when its wait set is out of date.
    changed: Notify,
}

/// Events that a session's task waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct WaitSet {
    has_tasks: bool,
    /// Next check for requests over their deadline. One timer for all: most are answered long before.
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

    /// Handles a message of the client, and wakes the session's task if that has to wait for other events now.
    pub(crate) fn receive(&self, message: ClientMessage, address: ReturnAddress) {
        let is_stirred = self.with(|session| {
            session.receive(message, address);
            session.wait_set != session.next_wait_set()
        });
        if is_stirred == Some(true) {
            self.changed.notify_one();
        }
    }

    /// Serves the client until `source` ends or `gone` resolves. After the end of the input, open requests have a
    /// short time to be answered.
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
            // The client may still read responses to requests that it sent before it closed its input.
            let answered = timeout(LAST_ANSWERS, self.answer_the_rest());
            tokio::select! {
                _ = answered => {}
                () = &mut gone => {}
            }
        }
    }

    /// Number of requests without a response.
    pub(crate) fn open_calls(&self) -> usize {
        self.client.calls().len()
    }

    /// Closes the session. Returns the client state that a later session can start from.
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

    /// Waits for the next finished task.
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
    /// Wait set for the present state of the session.
    fn next_wait_set(&self) -> WaitSet {
        let wanted = self.client.shortest_limit();
        let wanted = wanted.map(|limit| Instant::now() + (limit / LOOKS).max(SHORTEST_LOOK));
        WaitSet {
            has_tasks: !self.tasks.is_empty(),
            look: self.wait_set.look.into_iter().chain(wanted).min(),
            changes: self.aggregations.wanted_changes(),
        }
    }

    fn look(&mut self) {
        self.wait_set.look = None;
        self.expire();
    }

    fn owes_answers(&self) -> bool {
        !self.client.calls().is_empty()
    }
}

impl fmt::Debug for SessionHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionHandle").field("client", &self.client).finish_non_exhaustive()
    }
}

/// Waits for a catalog change. Returns `None` at once if the session waits for none.
async fn told(changes: Option<CatalogChange>, catalog: &Catalog) -> Option<()> {
    changes?.wait(catalog).await;
    Some(())
}
