//! Ending containers, a few at a time.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use crate::engine::answers::ContainerView;
use crate::engine::call::CallError;
use crate::engine::claim::RemovedContainer;
use crate::engine::client::Client;

/// More at a time are not faster on any engine, and slow down what else it does.
const AT_A_TIME: usize = 4;
/// Before the engine is asked again what it has while a removal does not come back.
const BETWEEN_LOOKS: Duration = Duration::from_millis(500);
/// For a description that is only needed to tell of a removal.
const DESCRIPTION: Duration = Duration::from_secs(2);

/// Removals under way. A container whose removal hangs takes up one place, and no time of others.
pub(super) struct Work {
    /// For a container to end by itself.
    grace: Duration,
    tasks: JoinSet<Ended>,
    /// How often each was tried.
    tries: BTreeMap<String, usize>,
    busy: Vec<String>,
}

/// What came of one attempt.
struct Ended {
    id: String,
    detached: Option<RemovedContainer>,
    result: Result<(), CallError>,
}

/// What came of them all.
pub(super) struct Done {
    /// Running containers that were meant to go on by themselves.
    pub(super) detached: Vec<RemovedContainer>,
    /// Whether the engine said so of each of them.
    pub(super) all_went: bool,
}

impl Work {
    pub(super) fn new(grace: Duration) -> Self {
        Self { grace, tasks: JoinSet::new(), tries: BTreeMap::new(), busy: Vec::new() }
    }

    /// Tries to remove each of them once. Comes back when all was tried, and after `pause` if any
    /// did not go; or earlier, when it is time to look again because one hangs.
    pub(super) async fn on(
        &mut self,
        client: &Client,
        listed: Vec<ContainerView>,
        pause: Duration,
    ) -> Done {
        let mut queue = self.queue(listed);
        let mut done = Done { detached: Vec::new(), all_went: true };
        let (retry, look) = (Instant::now() + pause, Instant::now() + pause.max(BETWEEN_LOOKS));
        loop {
            while self.tasks.len() < AT_A_TIME
                && let Some(view) = queue.pop_front()
            {
                self.begin(client, view);
            }
            match timeout_at(look, self.tasks.join_next()).await {
                Ok(Some(ended)) => self.note(ended, &mut done),
                Ok(None) if done.all_went => return done,
                Ok(None) => {
                    sleep_until(retry).await;
                    return done;
                }
                Err(_) => return done,
            }
        }
    }

    /// Those that nobody works on, the least tried first.
    fn queue(&self, listed: Vec<ContainerView>) -> VecDeque<ContainerView> {
        let mut queue: Vec<ContainerView> =
            listed.into_iter().filter(|view| !self.busy.contains(&view.id)).collect();
        queue.sort_by_key(|view| self.tries.get(&view.id).copied().unwrap_or_default());
        queue.into()
    }

    fn begin(&mut self, client: &Client, view: ContainerView) {
        let tries = self.tries.entry(view.id.clone()).or_default();
        *tries += 1;
        // Who was asked once has had its grace.
        let grace = if *tries == 1 { self.grace } else { Duration::ZERO };
        self.busy.push(view.id.clone());
        self.tasks.spawn(end(client.clone(), view, grace));
    }

    fn note(&mut self, ended: Result<Ended, tokio::task::JoinError>, done: &mut Done) {
        // A task is never aborted but with all of this; whose it was is listed again if it is lost.
        let Ok(ended) = ended else { return self.busy.clear() };
        self.busy.retain(|id| *id != ended.id);
        done.detached.extend(ended.detached);
        done.all_went &= ended.result.is_ok();
    }
}

async fn end(client: Client, view: ContainerView, grace: Duration) -> Ended {
    let lives = ["running", "paused", "restarting"].contains(&view.state.as_str());
    let detached = if lives { detached(&client, &view).await } else { None };
    // A paused one can't hear it.
    if lives && view.state != "paused" && !grace.is_zero() {
        // Engines count whole seconds: when the grace is over we no longer wait for them. Whatever
        // they say, the removal follows.
        let _ = timeout(grace, client.stop(&view.id, grace)).await;
    }
    let result = client.remove(&view.id).await;
    Ended { id: view.id, detached, result }
}

async fn detached(client: &Client, view: &ContainerView) -> Option<RemovedContainer> {
    let details = timeout(DESCRIPTION, client.details(&view.id)).await.ok()?.ok()?;
    details.is_detached().then(|| view.into())
}
