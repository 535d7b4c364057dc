//! Ending containers, a few at a time.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use crate::containers::{ContainerView, LeftContainer, RemovedContainer};
use crate::engine::client::Client;
use crate::engine::proof::{Candidate, CreatedIds, Doubt, Origin, prove};

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
    /// Those that are proven to be the instance's already.
    made: CreatedIds,
    tasks: JoinSet<Ended>,
    /// How often each was tried.
    tries: BTreeMap<String, usize>,
    /// Those that were left alone when they were last tried.
    doubts: BTreeMap<String, Doubt>,
    busy: Vec<String>,
}

/// What came of one attempt.
struct Ended {
    id: String,
    attempt: Attempt,
}

enum Attempt {
    /// The engine was asked to remove it.
    Removal { detached: Option<RemovedContainer>, has_gone: bool },
    /// It is not the instance's.
    Inherited,
    /// Nobody knows whose it is, and it was left alone.
    Doubted(Doubt),
}

/// What came of them all.
pub(super) struct Done {
    /// Running containers that were meant to go on by themselves.
    pub(super) detached: Vec<RemovedContainer>,
    /// Those that have the label from their image.
    pub(super) inherited: Vec<String>,
    /// Whether the engine said so of each of them.
    pub(super) all_went: bool,
}

impl Work {
    pub(super) fn new(grace: Duration, made: CreatedIds) -> Self {
        let (tries, doubts) = (BTreeMap::new(), BTreeMap::new());
        Self { grace, made, tasks: JoinSet::new(), tries, doubts, busy: Vec::new() }
    }

    /// What is told of those that are still there.
    pub(super) fn left_of(&self, listed: &[Candidate]) -> Vec<LeftContainer> {
        let left = |Candidate { view, .. }: &Candidate| {
            LeftContainer::from(view).with_doubt(self.doubts.get(&view.id))
        };
        listed.iter().map(left).collect()
    }

    /// Tries to remove each of them once. Comes back when all was tried, and after `pause` if any
    /// did not go; or earlier, when it is time to look again because one hangs.
    pub(super) async fn on(
        &mut self,
        client: &Client,
        listed: Vec<Candidate>,
        pause: Duration,
    ) -> Done {
        let mut queue = self.queue(listed);
        let mut done = Done { detached: Vec::new(), inherited: Vec::new(), all_went: true };
        let (retry, look) = (Instant::now() + pause, Instant::now() + pause.max(BETWEEN_LOOKS));
        loop {
            while self.tasks.len() < AT_A_TIME
                && let Some(one) = queue.pop_front()
            {
                self.begin(client, one);
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
        // A container that was asked once has had its grace. One that was left alone was not asked.
        let is_first = *tries == 1 || self.doubts.contains_key(id);
        let grace = if is_first { self.grace } else { Duration::ZERO };
        self.busy.push(id.clone());
        self.tasks.spawn(attempt(client.clone(), one, self.made.clone(), grace));
    }

    fn note(&mut self, ended: Result<Ended, tokio::task::JoinError>, done: &mut Done) {
        // After a panic it is not known whose task it was. All are listed again, after the pause.
        let Ok(ended) = ended else {
            done.all_went = false;
            return self.busy.clear();
        };
        let Ended { id, attempt } = ended;
        self.busy.retain(|busy| *busy != id);
        self.doubts.remove(&id);
        match attempt {
            Attempt::Removal { detached, has_gone } => {
                done.detached.extend(detached);
                done.all_went &= has_gone;
            }
            Attempt::Inherited => done.inherited.push(id),
            Attempt::Doubted(doubt) => {
                self.doubts.insert(id, doubt);
                done.all_went = false;
            }
        }
    }
}

/// Nothing is done to a container before it is proven whose it is.
async fn attempt(client: Client, one: Candidate, made: CreatedIds, grace: Duration) -> Ended {
    let attempt = match prove(&client, &one, &made).await {
        Ok(Origin::Create) => end(&client, &one.view, grace).await,
        Ok(Origin::Image) => Attempt::Inherited,
        Err(doubt) => Attempt::Doubted(doubt),
    };
    Ended { id: one.view.id, attempt }
}

async fn end(client: &Client, view: &ContainerView, grace: Duration) -> Attempt {
    let lives = ["running", "paused", "restarting"].contains(&view.state.as_str());
    let detached = if lives { detached(client, view).await } else { None };
    // A paused one can't hear it.
    if lives && view.state != "paused" && !grace.is_zero() {
        // Engines count whole seconds: when the grace is over we no longer wait for them. Whatever
        // they say, the removal follows.
        let _ = timeout(grace, client.stop(&view.id, grace)).await;
    }
    let has_gone = client.remove(&view.id).await.is_ok();
    Attempt::Removal { detached, has_gone }
}

async fn detached(client: &Client, view: &ContainerView) -> Option<RemovedContainer> {
    let details = timeout(DESCRIPTION, client.details(&view.id)).await.ok()?.ok()?;
    details.is_detached().then(|| view.into())
}
