//! The seam between a keeper and what it keeps: real instances here, simulated ones in tests.

use std::fmt;
use std::future::Future;
use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::AsyncRead;
use tokio::net::unix::pipe;
use tokio::sync::Semaphore;

use super::config::{Server, Target};
use super::line::Input;
use super::readiness::Readiness;
use super::remote;
use crate::event::Event;
use crate::fence::{Pipe, ServerStdio, StartError};
use crate::id::InstanceId;
use crate::instance::{Instance, Owner};
use crate::ladder::Step;
use crate::outcome::{Outcome, Residue};

pub(super) type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;
/// Our end of a server's output.
pub(super) type Output = Box<dyn AsyncRead + Send + Unpin>;

/// Who starts instances.
pub(super) trait Starter: Send + Sync + fmt::Debug {
    /// Starts one. From the moment that this returns it ends when its [`Life`] is dropped.
    fn start(&self, server: Arc<Server>) -> BoxFuture<Result<Started, StartError>>;
}

/// An instance that was started.
pub(super) struct Started {
    pub(super) id: InstanceId,
    pub(super) life: Box<dyn Life>,
    pub(super) stdin: Input,
    pub(super) stdout: Output,
    pub(super) stderr: Output,
}

/// What happens to an instance.
pub(super) enum Notice {
    /// What its guardian says.
    Fenced(Event),
    /// It is spoken with, where it is.
    Reached(String),
    /// It can't be spoken with any more, for this reason.
    Lost(String),
    /// Nobody speaks with it any more, as was asked for.
    Left,
}

/// A keeper's hold on an instance.
pub(super) trait Life: Send {
    /// What happens to it.
    fn poll_notice(&mut self, cx: &mut Context<'_>) -> Poll<Notice>;

    /// Begins the way down.
    fn stop(&mut self, step: Step);

    /// Ends what is left after its guardian was killed.
    fn rescue(self: Box<Self>) -> BoxFuture<Outcome>;

    /// Takes leave of it once nothing is left.
    fn part(self: Box<Self>) -> BoxFuture<()>;
}

/// Starts real ones.
#[derive(Debug)]
pub(super) struct Real {
    owner: Owner,
    /// Starts and rescues use the file system and wait for others, so they are done by threads: by
    /// these few.
    hands: Arc<Semaphore>,
}

/// As many starts and rescues are worked on at a time.
const HANDS: usize = 8;

impl Real {
    pub(super) fn new(owner: Owner) -> Self {
        Self { owner, hands: Arc::new(Semaphore::new(HANDS)) }
    }
}

impl Starter for Real {
    fn start(&self, server: Arc<Server>) -> BoxFuture<Result<Started, StartError>> {
        let (owner, hands) = (self.owner.clone(), Arc::clone(&self.hands));
        Box::pin(async move {
            let spec = match &server.target {
                Target::Run(spec) => spec.clone(),
                Target::Reach(remote) => {
                    let grace = server.terms.limits.grace;
                    return remote::start(&**remote, grace).map_err(StartError::Guardian);
                }
            };
            let start = move || -> Result<(Instance, Pipe), StartError> {
                let (stdio, pipe) = ServerStdio::piped().map_err(StartError::Guardian)?;
                let instance = owner.start(spec, stdio, &server.terms)?;
                Ok((instance, pipe))
            };
            let (instance, pipe) = by_hand(&hands, start)
                .await
                .unwrap_or_else(|| Err(StartError::Guardian(io::ErrorKind::Interrupted.into())))?;
            connect(instance, pipe, hands).map_err(StartError::Guardian)
        })
    }
}

/// `None`: the runtime ends.
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
        life: Box::new(Fenced { instance, readiness, hands, limit }),
        stdin: Box::new(stdin),
        stdout: Box::new(stdout),
        stderr: Box::new(stderr),
    })
}

/// An instance under the runtime's poll.
struct Fenced {
    instance: Instance,
    readiness: Readiness,
    hands: Arc<Semaphore>,
    limit: Duration,
}

impl Life for Fenced {
    fn poll_notice(&mut self, cx: &mut Context<'_>) -> Poll<Notice> {
        let Self { instance, readiness, .. } = self;
        // A line that fails is as good as one that has ended.
        let event = readiness.poll(cx, || instance.next_event().transpose());
        event.map(|event| Notice::Fenced(event.flatten().unwrap_or(Event::GuardianLost)))
    }

    fn stop(&mut self, step: Step) {
        self.instance.stop(step);
    }

    fn rescue(self: Box<Self>) -> BoxFuture<Outcome> {
        let Self { instance, hands, .. } = *self;
        Box::pin(async move {
            let outcome = by_hand(&hands, || instance.rescue()).await;
            outcome.unwrap_or(Outcome::Unverified(Residue::Unwatched))
        })
    }

    fn part(self: Box<Self>) -> BoxFuture<()> {
        let Self { instance, limit, .. } = *self;
        let leaving = instance.part();
        Box::pin(async move {
            // Who can't be waited for here is waited for by others when it is dropped.
            let Some(leaving) = leaving else { return };
            let Ok(left) = Readiness::of(leaving.as_fd()) else { return };
            if tokio::time::timeout(limit, left.wait()).await.is_ok() {
                leaving.reap();
            }
        })
    }
}
