//! The simulated backend: starts, holds and stops simulated instances.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use super::behaviour::{Rescue, StartOutcome};
use super::instance::SimInstance;
use super::output::{Found, SimOutput};
use super::world::{Flaw, World};
use crate::backend::{Backend, BoxFuture, Evidence, Hold, Part, StartOrder, Started, Target};
use crate::event::Event;
use crate::fence::StartError;
use crate::id::InstanceId;
use crate::ladder::Step;
use crate::ledger::{Book, Entry, PROCESS};
use crate::outcome::{Outcome, Proof, Residue};
use crate::snapshot::View;

/// Capacity of the pipe to a server that does not read, in bytes.
const PIPE: usize = 64;

/// Takes the place of the process backend. Writes no ledger.
#[derive(Debug)]
pub(super) struct Simulated(pub(super) Arc<World>);

impl Backend for Simulated {
    fn name(&self) -> &str {
        PROCESS
    }

    fn start(&self, order: StartOrder) -> BoxFuture<Result<Started, StartError>> {
        let world = Arc::clone(&self.0);
        Box::pin(async move {
            let Target::Run(spec) = order.target else {
                return Err(StartError::OtherTarget(PROCESS));
            };
            let index = world.begin(&spec.name, order.containers);
            let held = Held::new(&world, index);
            let (launch, start) =
                world.of(index, |instance| (instance.behaviour.launch, instance.behaviour.start));
            if !launch.is_zero() {
                tokio::time::sleep(launch).await;
            }
            if start == StartOutcome::Failed {
                world.happens();
                return Err(StartError::NoRole);
            }
            let id = id_of(index);
            let stdin = Box::new(Stdin { world: Arc::clone(&world), index, unread: 0 });
            let pipe = |of| Box::new(Pipe { world: Arc::clone(&world), index, of, timer: None });
            let stdout = pipe(|instance| &mut instance.output);
            let stderr = pipe(|instance| &mut instance.stderr);
            Ok(Started { id, hold: Box::new(held), stdin, stdout, stderr })
        })
    }

    fn list(&self, _: Book) -> BoxFuture<BTreeMap<InstanceId, Evidence>> {
        Box::pin(std::future::ready(BTreeMap::new()))
    }

    fn end(&self, _: Book, _: Duration) -> BoxFuture<BTreeMap<InstanceId, Outcome>> {
        Box::pin(std::future::ready(BTreeMap::new()))
    }

    fn describe(&self, _: Vec<Book>) -> BoxFuture<Vec<View>> {
        Box::pin(std::future::ready(Vec::new()))
    }

    fn ask(&self, _: &Entry) -> bool {
        false
    }

    fn part(&self, _: &Entry, _: &str) -> Option<Part> {
        None
    }
}

/// Ids in order of starts, so that schedules repeat exactly.
pub(super) fn id_of(index: usize) -> InstanceId {
    format!("{index:032x}").parse().unwrap()
}

/// The keeper's hold on an instance; dropping it stops the instance.
struct Held {
    world: Arc<World>,
    index: usize,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Held {
    fn new(world: &Arc<World>, index: usize) -> Self {
        Self { world: Arc::clone(world), index, timer: None }
    }
}

impl Hold for Held {
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        loop {
            match self.world.next_event(self.index, cx.waker()) {
                Ok(event) => {
                    let program = self.world.of(self.index, |instance| instance.name.clone());
                    return Poll::Ready(event.event(&program));
                }
                Err(due) => {
                    if poll_until(&mut self.timer, due, cx).is_pending() {
                        return Poll::Pending;
                    }
                }
            }
        }
    }

    fn stop(&mut self, _: Step) {
        self.world.stop(self.index);
    }

    fn rescue(self: Box<Self>) -> BoxFuture<Outcome> {
        Box::pin(async move {
            let behaviour = self.world.of(self.index, |instance| instance.behaviour.guardian);
            let rescue = behaviour.map_or(Rescue::Gone(Duration::ZERO), |(_, rescue)| rescue);
            let (Rescue::Gone(lag) | Rescue::Unwatched(lag) | Rescue::Stays(lag)) = rescue;
            tokio::time::sleep(lag).await;
            self.world.of(self.index, |instance| instance.rescued(rescue, now()));
            self.world.happens();
            match rescue {
                Rescue::Gone(_) => Outcome::Gone(Proof::EmptyLeaf),
                Rescue::Unwatched(_) => Outcome::Unverified(Residue::Unwatched),
                Rescue::Stays(_) => Outcome::Unverified(Residue::Processes(Vec::new())),
            }
        })
    }

    fn part(self: Box<Self>) -> BoxFuture<()> {
        Box::pin(std::future::ready(()))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.world.flaw() != Some(Flaw::Leaks) {
            self.world.of(self.index, |instance| instance.let_go(now()));
        }
    }
}

/// Sleeps until `due`, or forever. The instance wakes the sleeper if its schedule changes.
fn poll_until(
    timer: &mut Option<Pin<Box<Sleep>>>,
    due: Option<Instant>,
    cx: &mut Context<'_>,
) -> Poll<()> {
    let Some(due) = due.map(tokio::time::Instant::from_std) else { return Poll::Pending };
    let timer = timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(due)));
    if timer.deadline() != due {
        timer.as_mut().reset(due);
    }
    timer.as_mut().poll(cx)
}

struct Stdin {
    world: Arc<World>,
    index: usize,
    unread: usize,
}

impl AsyncWrite for Stdin {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.world.of(self.index, |instance| instance.reads(now())) {
            None => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
            Some(true) => {
                self.world.hear(self.index, bytes);
                Poll::Ready(Ok(bytes.len()))
            }
            Some(false) => {
                let room = PIPE.saturating_sub(self.unread).min(bytes.len());
                self.unread += room;
                if room == 0 { Poll::Pending } else { Poll::Ready(Ok(room)) }
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// The keeper's end of a pipe that an instance writes.
struct Pipe {
    world: Arc<World>,
    index: usize,
    of: fn(&mut SimInstance) -> &mut SimOutput,
    timer: Option<Pin<Box<Sleep>>>,
}

impl AsyncRead for Pipe {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let most = buffer.remaining();
            let of = self.of;
            let found =
                self.world.of(self.index, |instance| of(instance).take(most, now(), cx.waker()));
            match found {
                Found::Bytes(bytes) => {
                    buffer.put_slice(&bytes);
                    return Poll::Ready(Ok(()));
                }
                Found::End => return Poll::Ready(Ok(())),
                Found::Nothing(due) => {
                    if poll_until(&mut self.timer, due, cx).is_pending() {
                        return Poll::Pending;
                    }
                }
            }
        }
    }
}

pub(super) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
