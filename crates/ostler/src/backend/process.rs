//! The process backend: servers as processes of this machine, each below its own guardian.
//!
//! Starts and rescues use the file system and wait for processes, so they run on blocking threads, at most [`HANDS`] at a
//! time. Events need no thread: the guardian's control socket is polled by the runtime.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::net::unix::pipe;
use tokio::sync::Semaphore;

use super::readiness::Readiness;
use super::{Backend, BoxFuture, Evidence, Hold, Part, StartOrder, Started, Target};
use crate::event::Event;
use crate::fence::{Pipe, ServerStdio, StartError};
use crate::id::InstanceId;
use crate::instance::Instance;
use crate::ladder::Step;
use crate::ledger::{Book, Entry, PROCESS};
use crate::outcome::{Outcome, Residue};
use crate::process;
use crate::snapshot::{self, View};

/// Most starts, rescues and sweeps at the same time.
const HANDS: usize = 8;

/// Starts servers as processes of this machine.
#[derive(Clone, Debug)]
pub struct Processes {
    /// Limits the blocking threads in use.
    hands: Arc<Semaphore>,
}

impl Default for Processes {
    fn default() -> Self {
        Self { hands: Arc::new(Semaphore::new(HANDS)) }
    }
}

impl Backend for Processes {
    fn name(&self) -> &str {
        PROCESS
    }

    fn start(&self, order: StartOrder) -> BoxFuture<Result<Started, StartError>> {
        let hands = Arc::clone(&self.hands);
        Box::pin(async move {
            let StartOrder { target, terms, owner, .. } = order;
            let Target::Run(spec) = target else { return Err(StartError::OtherTarget(PROCESS)) };
            let start = move || -> Result<(Instance, Pipe), StartError> {
                let (stdio, pipe) = ServerStdio::piped().map_err(StartError::Guardian)?;
                let instance = owner.start(spec, stdio, &terms)?;
                Ok((instance, pipe))
            };
            let (instance, pipe) = by_hand(&hands, start)
                .await
                .unwrap_or_else(|| Err(StartError::Guardian(io::ErrorKind::Interrupted.into())))?;
            connect(instance, pipe, hands).map_err(StartError::Guardian)
        })
    }

    fn list(&self, left: Book) -> BoxFuture<BTreeMap<InstanceId, Evidence>> {
        self.work(move || process::list(&left))
    }

    fn end(&self, left: Book, limit: Duration) -> BoxFuture<BTreeMap<InstanceId, Outcome>> {
        self.work(move || process::end(&left, limit))
    }

    fn describe(&self, books: Vec<Book>) -> BoxFuture<Vec<View>> {
        self.work(move || snapshot::views(&books))
    }

    fn ask(&self, entry: &Entry) -> bool {
        process::ask(entry)
    }

    fn part(&self, entry: &Entry, what: &str) -> Option<Part> {
        snapshot::part(entry, what.parse().ok()?)
    }
}

impl Processes {
    /// Runs `work` on a blocking thread. Returns the default if the runtime shuts down meanwhile.
    fn work<T: Default + Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> BoxFuture<T> {
        let hands = Arc::clone(&self.hands);
        Box::pin(async move { by_hand(&hands, work).await.unwrap_or_default() })
    }
}

/// Runs `work` on a blocking thread. `None` if the runtime shuts down or `work` panics.
async fn by_hand<T: Send + 'static>(
    hands: &Arc<Semaphore>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let _hand = hands.acquire().await.ok()?;
    tokio::task::spawn_blocking(work).await.ok()
}

fn connect(instance: Instance, pipe: Pipe, hands: Arc<Semaphore>) -> io::Result<Started> {
    let limit = instance.limits().control;
    let (stdin, stdout, stderr) = (
        pipe::Sender::from_owned_fd(pipe.stdin.into())?,
        pipe::Receiver::from_owned_fd(pipe.stdout.into())?,
        pipe::Receiver::from_owned_fd(pipe.stderr.into())?,
    );
    let id = instance.id();
    let readiness = Readiness::of(instance.as_fd())?;
    Ok(Started {
        id,
        hold: Box::new(Fenced { instance, readiness, hands, limit }),
        stdin: Box::new(stdin),
        stdout: Box::new(stdout),
        stderr: Box::new(stderr),
    })
}

/// An instance whose control socket the runtime polls.
struct Fenced {
    instance: Instance,
    readiness: Readiness,
    hands: Arc<Semaphore>,
    limit: Duration,
}

impl Hold for Fenced {
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        let Self { instance, readiness, .. } = self;
        // A failing control socket counts as a lost guardian.
        let event = readiness.poll(cx, || instance.next_event().transpose());
        event.map(|event| event.flatten().unwrap_or(Event::GuardianLost))
    }

    fn stop(&mut self, step: Step) {
        self.instance.stop(step);
    }

    fn rescue(self: Box<Self>) -> BoxFuture<Outcome> {
        let Self { instance, hands, .. } = *self;
        Box::pin(async move {
            let outcome = by_hand(&hands, || instance.rescue()).await;
            // The rescue was interrupted, so its result is unknown.
            outcome.unwrap_or(Outcome::Unverified(Residue::Processes(Vec::new())))
        })
    }

    fn part(self: Box<Self>) -> BoxFuture<()> {
        let Self { instance, limit, .. } = *self;
        let leaving = instance.part();
        Box::pin(async move {
            // A guardian that is not reaped here is reaped by the graveyard when `leaving` is dropped.
            let Some(leaving) = leaving else { return };
            let Ok(left) = Readiness::of(leaving.as_fd()) else { return };
            if tokio::time::timeout(limit, left.wait()).await.is_ok() {
                leaving.reap();
            }
        })
    }
}
