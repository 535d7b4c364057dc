//! Removing all that an instance has caused in an engine, until the engine has nothing of it.
//!
//! Whatever an engine answers to a single removal, success or not, means no more than "look again".
//! Proof is two lists in a row that are empty, some time apart, while no create is in flight. Containers that
//! have the instance's label from their image are not the instance's, and don't count. All of it can be given
//! up at any moment by dropping the future, and begun again by anybody.

mod networks;
mod work;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use tokio::time::timeout;

use super::answers::Listed;
use super::call::CallError;
use super::claim::{Claim, Cleared, News, Times};
use super::client::Client;
use super::proof::Candidate;
use crate::containers::{
    ContainerView, Endpoint, EngineResidue, EngineState, RemovedContainer, Unreachable,
};
use work::Work;

/// Between two lists that have to be empty.
const BETWEEN_LISTS: Duration = Duration::from_millis(100);
/// The first pause after something that did not succeed. Each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// The longest pause while the engine can't be asked at all.
const LONGEST_SILENCE: Duration = Duration::from_secs(5);

/// Removes the containers and networks of an instance, within [`Times::limit`]. `hear` is told of each
/// container that was meant to go on by itself, once it is gone, and of the engine at each look.
pub(crate) async fn clear(
    endpoint: &Endpoint,
    claim: &Claim,
    times: &Times,
    hear: &mut (dyn FnMut(News) + Send),
) -> Cleared {
    let mut clearing = Clearing::new(endpoint, claim, times);
    match timeout(times.limit, clearing.run(hear)).await {
        Ok(kept_networks) => Cleared::Gone { kept_networks },
        Err(_) => Cleared::Unverified(clearing.residue),
    }
}

/// The same for those who have no runtime.
#[cfg(test)]
pub(crate) fn clear_blocking(
    endpoint: &Endpoint,
    claim: &Claim,
    times: &Times,
    hear: &mut (dyn FnMut(News) + Send),
) -> Cleared {
    match block_on(clear(endpoint, claim, times, hear)) {
        Ok(cleared) => cleared,
        Err(error) => {
            let engine = Unreachable { endpoint: endpoint.to_string(), reason: error.to_string() };
            Cleared::Unverified(EngineResidue::Unreachable(engine))
        }
    }
}

/// All containers of ours in an engine, of all owners and instances.
pub(crate) async fn list(
    endpoint: &Endpoint,
    limit: Duration,
) -> Result<Vec<ContainerView>, Unreachable> {
    let listed = async {
        let client = Client::connect(endpoint, limit).await?;
        client.all_containers().await
    };
    let listed = timeout(limit, listed).await.unwrap_or(Err(CallError::TooLate(limit)));
    let unreachable = |error| unreachable(endpoint, &error);
    Ok(listed.map_err(unreachable)?.into_iter().filter_map(Listed::view).collect())
}

/// The same for those who have no runtime.
#[cfg(test)]
pub(crate) fn list_blocking(
    endpoint: &Endpoint,
    limit: Duration,
) -> Result<Vec<ContainerView>, Unreachable> {
    let failed = |error: std::io::Error| Unreachable {
        endpoint: endpoint.to_string(),
        reason: error.to_string(),
    };
    block_on(list(endpoint, limit)).map_err(failed)?
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> std::io::Result<T> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    Ok(builder.enable_io().enable_time().build()?.block_on(future))
}

fn unreachable(endpoint: &Endpoint, error: &CallError) -> Unreachable {
    Unreachable { endpoint: endpoint.to_string(), reason: error.to_string() }
}

/// A removal under way.
struct Clearing<'a> {
    endpoint: &'a Endpoint,
    claim: &'a Claim,
    times: &'a Times,
    client: Option<Client>,
    work: Work,
    since: Instant,
    /// Those that have ever been listed, with the number of the list that they were first in.
    seen: BTreeMap<String, usize>,
    /// How many lists there were.
    lists: usize,
    /// Those that have the label from their image.
    inherited: BTreeSet<String>,
    /// Those that have to be told of when they are gone.
    detached: BTreeMap<String, RemovedContainer>,
    pause: Duration,
    /// What is left, as far as we know at the moment.
    residue: EngineResidue,
}

impl<'a> Clearing<'a> {
    fn new(endpoint: &'a Endpoint, claim: &'a Claim, times: &'a Times) -> Self {
        let nothing_yet = Unreachable {
            endpoint: endpoint.to_string(),
            reason: format!("it has not answered within {:?}", times.limit),
        };
        Self {
            endpoint,
            claim,
            times,
            client: None,
            work: Work::new(times.grace, claim.made.clone()),
            since: Instant::now(),
            seen: BTreeMap::new(),
            lists: 0,
            inherited: BTreeSet::new(),
            detached: BTreeMap::new(),
            pause: FIRST_PAUSE,
            residue: EngineResidue::Unreachable(nothing_yet),
        }
    }

    /// Goes on until nothing is left; returns the networks that were kept.
    async fn run(&mut self, hear: &mut (dyn FnMut(News) + Send)) -> Vec<String> {
        let mut empty_since: Option<Instant> = None;
        loop {
            let look = self.look(hear).await;
            hear(News::State(if look.is_ok() {
                EngineState::Answering
            } else {
                EngineState::Silent
            }));
            match look {
                Ok(Look::Empty) if empty_since.is_some_and(|at| at.elapsed() >= BETWEEN_LISTS) => {
                    match self.networks().await {
                        Ok(Some(kept)) => return kept,
                        Ok(None) => self.pause(LONGEST_PAUSE).await,
                        Err(error) => self.silence(&error).await,
                    }
                }
                Ok(Look::Empty) => {
                    empty_since.get_or_insert_with(Instant::now);
                    tokio::time::sleep(BETWEEN_LISTS).await;
                }
                Ok(look) => {
                    empty_since = None;
                    self.act(look).await;
                }
                Err(error) => {
                    empty_since = None;
                    self.silence(&error).await;
                }
            }
        }
    }

    /// Asks the engine what it has.
    async fn look(&mut self, hear: &mut (dyn FnMut(News) + Send)) -> Result<Look, CallError> {
        // Before the list: a create that is answered after it may be missing in it.
        let may_appear = self.claim.creates.may_appear(self.since, self.appeared());
        let listed = self.client().await?.containers_of(self.claim.instance).await?;
        let listed = listed.into_iter().filter_map(Listed::candidate);
        let listed: Vec<Candidate> = listed.filter(|one| self.may_be_ours(&one.view.id)).collect();
        let ids: BTreeSet<&String> = listed.iter().map(|one| &one.view.id).collect();
        let gone: Vec<String> =
            self.detached.keys().filter(|id| !ids.contains(id)).cloned().collect();
        let gone = gone.iter().filter_map(|id| self.detached.remove(id));
        gone.map(News::Removed).for_each(&mut *hear);
        for one in &listed {
            if !self.seen.contains_key(&one.view.id) {
                self.seen.insert(one.view.id.clone(), self.lists);
                self.pause = FIRST_PAUSE;
            }
        }
        self.lists += 1;
        Ok(match (listed.is_empty(), may_appear) {
            (false, _) => {
                self.residue = EngineResidue::Containers(self.work.left_of(&listed));
                Look::Containers(listed)
            }
            (true, may_appear) => {
                self.residue = EngineResidue::Creating;
                if may_appear { Look::Creating } else { Look::Empty }
            }
        })
    }

    /// How many were not in the first list.
    fn appeared(&self) -> usize {
        self.seen.values().filter(|list| **list > 0).count()
    }

    /// Not if it has its label from its image. A create that was not answered when that was found out may have been
    /// answered since.
    fn may_be_ours(&self, id: &str) -> bool {
        !self.inherited.contains(id) || self.claim.made.contains(id)
    }

    async fn act(&mut self, look: Look) {
        let Look::Containers(listed) = look else {
            return tokio::time::sleep(BETWEEN_LISTS).await;
        };
        let Some(client) = self.client.clone() else { return };
        let done = self.work.on(&client, listed, self.pause).await;
        self.detached.extend(done.detached.into_iter().map(|one| (one.id.clone(), one)));
        // The user's own are no creates that were waited for.
        self.seen.retain(|id, _| !done.inherited.contains(id));
        self.inherited.extend(done.inherited);
        self.pause = if done.all_went { FIRST_PAUSE } else { (self.pause * 2).min(LONGEST_PAUSE) };
    }

    /// The engine, if it answers. Once it has, its version is not asked for again.
    async fn client(&mut self) -> Result<Client, CallError> {
        if let Some(client) = &self.client {
            return Ok(client.clone());
        }
        let client = Client::connect(self.endpoint, self.times.call).await?;
        Ok(self.client.insert(client).clone())
    }

    /// What to do about an engine that does not answer: wait.
    async fn silence(&mut self, error: &CallError) {
        self.residue = EngineResidue::Unreachable(unreachable(self.endpoint, error));
        // After a restart it may be another one.
        self.client = None;
        self.pause(LONGEST_SILENCE).await;
    }

    async fn pause(&mut self, longest: Duration) {
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(longest);
    }
}

/// What the engine has of the instance.
enum Look {
    Containers(Vec<Candidate>),
    /// Nothing yet.
    Creating,
    Empty,
}
