//! Stops and removes containers, a few at a time.
//!
//! Each attempt runs as a task: it proves that the container is the instance's, stops it with the grace the first
//! time, and removes it. A removal that hangs occupies one of [`AT_A_TIME`] slots and delays no other container.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use crate::containers::{ContainerView, LeftContainer, RemovedContainer};
use crate::engine::client::Client;
use crate::engine::proof::{Candidate, CreatedIds, Doubt, Origin, prove};

/// Concurrent removals. More are not faster on any engine, and slow down its other work.
const AT_A_TIME: usize = 4;
/// Time until the caller should list again although a removal hangs.
const BETWEEN_LISTS: Duration = Duration::from_millis(500);
/// Time limit for details that only serve the report.
const DETAILS_LIMIT: Duration = Duration::from_secs(2);

pub(super) struct Removals {
    /// Time for a container to stop by itself.
    grace: Duration,
    /// Containers that are known to be the instance's.
    made: CreatedIds,
    tasks: JoinSet<Finished>,
    /// Number of attempts, by container.
    tries: BTreeMap<String, usize>,
    /// Containers that the last attempt left alone, and why.
    doubts: BTreeMap<String, Doubt>,
    /// Containers with a task in progress.
    busy: Vec<String>,
}

/// Result of one attempt.
struct Finished {
    id: String,
    attempt: Attempt,
}

enum Attempt {
    /// A removal was requested.
    Removal { detached: Option<RemovedContainer>, has_gone: bool },
    /// The container inherited its label, so it is not the instance's.
    Inherited,
    /// The container's origin is unknown, so it was left alone.
    Doubted(Doubt),
}

/// Result of one round over all listed containers.
pub(super) struct Round {
    /// Detached containers that were running.
    pub(super) detached: Vec<RemovedContainer>,
    /// Containers that inherited the label from their image.
    pub(super) inherited: Vec<String>,
    /// Whether the engine confirmed every removal.
    pub(super) all_went: bool,
}

impl Removals {
    pub(super) fn new(grace: Duration, made: CreatedIds) -> Self {
        let (tries, doubts) = (BTreeMap::new(), BTreeMap::new());
        Self { grace, made, tasks: JoinSet::new(), tries, doubts, busy: Vec::new() }
    }

    /// Describes containers that still exist.
    pub(super) fn left_of(&self, listed: &[Candidate]) -> Vec<LeftContainer> {
        let left = |Candidate { view, .. }: &Candidate| {
            LeftContainer::from(view).with_doubt(self.doubts.get(&view.id))
        };
        listed.iter().map(left).collect()
    }

    /// Tries to remove each container once. Returns when all were tried, after `pause` if one was not removed; or
    /// earlier, when it is time to list again because a removal hangs.
    pub(super) async fn run_round(
        &mut self,
        client: &Client,
        listed: Vec<Candidate>,
        pause: Duration,
    ) -> Round {
        let mut queue = self.queue(listed);
        let mut round = Round { detached: Vec::new(), inherited: Vec::new(), all_went: true };
        let (retry, list_again) =
            (Instant::now() + pause, Instant::now() + pause.max(BETWEEN_LISTS));
        loop {
            while self.tasks.len() < AT_A_TIME
                && let Some(one) = queue.pop_front()
            {
                self.begin(client, one);
            }
            match timeout_at(list_again, self.tasks.join_next()).await {
                Ok(Some(ended)) => self.note(ended, &mut round),
                Ok(None) if round.all_went => return round,
                Ok(None) => {
                    sleep_until(retry).await;
                    return round;
                }
                Err(_) => return round,
            }
        }
    }

    /// Containers without a task in progress, the least tried first.
    fn queue(&self, listed: Vec<Candidate>) -> VecDeque<Candidate> {
        let mut queue: Vec<Candidate> =
            listed.into_iter().filter(|one| !self.busy.contains(&one.view.id)).collect();
        queue.sort_by_key(|one| self.tries.get(&one.view.id).copied().unwrap_or_default());
        queue.into()
    }

    fn begin(&mut self, client: &Client, one: Candidate) {
        let id = &one.view.id;
        let tries = self.tries.entry(id.clone()).or_default();
        *tries += 1;
        // Only the first stop gets the grace. A container that was left alone had none yet.
        let is_first = *tries == 1 || self.doubts.contains_key(id);
        let grace = if is_first { self.grace } else { Duration::ZERO };
        self.busy.push(id.clone());
        self.tasks.spawn(attempt(client.clone(), one, self.made.clone(), grace));
    }

    fn note(&mut self, ended: Result<Finished, tokio::task::JoinError>, round: &mut Round) {
        // A panic does not tell which task it was, so all containers may be tried again.
        let Ok(ended) = ended else {
            round.all_went = false;
            return self.busy.clear();
        };
        let Finished { id, attempt } = ended;
        self.busy.retain(|busy| *busy != id);
        self.doubts.remove(&id);
        match attempt {
            Attempt::Removal { detached, has_gone } => {
                round.detached.extend(detached);
                round.all_went &= has_gone;
            }
            Attempt::Inherited => round.inherited.push(id),
            Attempt::Doubted(doubt) => {
                self.doubts.insert(id, doubt);
                round.all_went = false;
            }
        }
    }
}

/// Proves that the container is the instance's, then removes it.
async fn attempt(client: Client, one: Candidate, made: CreatedIds, grace: Duration) -> Finished {
    let attempt = match prove(&client, &one, &made).await {
        Ok(Origin::Create) => end(&client, &one.view, grace).await,
        Ok(Origin::Image) => Attempt::Inherited,
        Err(doubt) => Attempt::Doubted(doubt),
    };
    Finished { id: one.view.id, attempt }
}

async fn end(client: &Client, view: &ContainerView, grace: Duration) -> Attempt {
    let lives = ["running", "paused", "restarting"].contains(&view.state.as_str());
    let detached = if lives { detached(client, view).await } else { None };
    // A paused container can't handle the signal.
    if lives && view.state != "paused" && !grace.is_zero() {
        // Engines take whole seconds, so the timeout here enforces the exact grace. The removal follows in any case.
        let _ = timeout(grace, client.stop(&view.id, grace)).await;
    }
    let has_gone = client.remove(&view.id).await.is_ok();
    Attempt::Removal { detached, has_gone }
}

async fn detached(client: &Client, view: &ContainerView) -> Option<RemovedContainer> {
    let details = timeout(DETAILS_LIMIT, client.details(&view.id)).await.ok()?.ok()?;
    details.is_detached().then(|| view.into())
}
