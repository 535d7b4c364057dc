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
use super::gather::News;
use super::reach::Errand;
use crate::catalog::Catalog;
use crate::client::{Client, Memory};
use crate::mutex::lock;
use crate::transport::{End, Source, Words};
use crate::upstream::Hub;

/// For answers to calls that were read before the client's input ended.
const LAST_ANSWERS: Duration = Duration::from_millis(1500);
/// Between two looks at calls that may have taken too long, as a part of what they may take.
const LOOKS: u32 = 16;
const SHORTEST_LOOK: Duration = Duration::from_millis(20);

/// A session, as long as it lasts.
pub(crate) struct Desk {
    hub: Arc<Hub>,
    client: Arc<Client>,
    session: Mutex<Option<Session>>,
    /// There is something else to wait for.
    stirred: Notify,
}

/// What a session's task waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Vigil {
    has_errands: bool,
    /// When to look at calls that may have taken too long. One timer for all: most are answered long before.
    look: Option<Instant>,
    news: Option<News>,
}

impl Desk {
    pub(crate) fn new(session: Session) -> Self {
        Self {
            hub: Arc::clone(&session.hub),
            client: Arc::clone(&session.client),
            session: Mutex::new(Some(session)),
            stirred: Notify::new(),
        }
    }

    /// The client says something.
    pub(crate) fn hear(&self, words: Words) {
        let is_stirred = self.with(|session| {
            session.hear(words);
            session.vigil != session.next_vigil()
        });
        if is_stirred == Some(true) {
            self.stirred.notify_one();
        }
    }

    /// Serves the client until it has nothing more to say, or `gone` says so.
    pub(crate) async fn serve(&self, mut source: impl Source, gone: impl Future<Output = ()>) {
        self.with(Session::take_up);
        let mut gone = pin!(gone);
        let mut look = pin!(sleep(Duration::ZERO));
        let mut said = Vec::new();
        let end = loop {
            let vigil = self.begin_vigil();
            if let Some(due) = vigil.look.filter(|due| *due != look.deadline()) {
                look.as_mut().reset(due);
            }
            tokio::select! {
                biased;
                () = &mut gone => break End::Gone,
                errand = self.errand(), if vigil.has_errands => self.run_errand(errand),
                heard = source.hear(|words| said.push(words)) => {
                    self.with(|session| said.drain(..).for_each(|words| session.hear(words)));
                    if let Err(end) = heard {
                        break end;
                    }
                }
                () = &mut look, if vigil.look.is_some() => {
                    self.with(Session::look);
                }
                Some(()) = told(vigil.news, &self.hub.catalog) => {
                    self.with(Session::heed_news);
                }
                () = self.stirred.notified() => {}
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
            let vigil = self.begin_vigil();
            tokio::select! {
                errand = self.errand(), if vigil.has_errands => self.run_errand(errand),
                () = self.client.settled() => {}
                Some(()) = told(vigil.news, &self.hub.catalog) => {
                    self.with(Session::heed_news);
                }
            }
        }
        self.client.out.drained().await;
    }

    fn begin_vigil(&self) -> Vigil {
        let begin = |session: &mut Session| {
            session.vigil = session.next_vigil();
            session.vigil.clone()
        };
        self.with(begin).unwrap_or_default()
    }

    /// Waits for the next errand that is done.
    async fn errand(&self) -> Result<Errand, JoinError> {
        poll_fn(|cx| match self.with(|session| session.errands.poll_join_next(cx)) {
            Some(Poll::Ready(Some(errand))) => Poll::Ready(errand),
            Some(Poll::Ready(None) | Poll::Pending) | None => Poll::Pending,
        })
        .await
    }

    fn run_errand(&self, errand: Result<Errand, JoinError>) {
        self.with(|session| session.run_errand(errand));
    }

    fn with<T>(&self, work: impl FnOnce(&mut Session) -> T) -> Option<T> {
        lock(&self.session).as_mut().map(work)
    }
}

impl Session {
    /// What is to be waited for, as things are now.
    fn next_vigil(&self) -> Vigil {
        let wanted = self.client.shortest_limit();
        let wanted = wanted.map(|limit| Instant::now() + (limit / LOOKS).max(SHORTEST_LOOK));
        Vigil {
            has_errands: !self.errands.is_empty(),
            look: self.vigil.look.into_iter().chain(wanted).min(),
            news: self.news_wanted(),
        }
    }

    fn look(&mut self) {
        self.vigil.look = None;
        self.expire();
    }

    /// Whether it has been asked for something that is not answered yet.
    fn owes_answers(&self) -> bool {
        !self.client.pending().is_empty() || !self.waiting.is_empty()
    }
}

impl fmt::Debug for Desk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Desk").field("client", &self.client).finish_non_exhaustive()
    }
}

/// Waits for news, if any are wanted.
async fn told(news: Option<News>, catalog: &Catalog) -> Option<()> {
    news?.come(catalog).await;
    Some(())
}
