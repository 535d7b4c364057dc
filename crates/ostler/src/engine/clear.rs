//! Removes everything that an instance has created in an engine, until the engine proves that nothing is left.
//!
//! The response to a single removal, success or error, only means "list again". Proof is two empty lists in a row,
//! [`BETWEEN_LISTS`] apart, while no create is pending. Containers that inherited the instance's label from their image
//! are not the instance's and don't count. Networks follow once no container is left. Dropping the future abandons the
//! removal at any point; any other process can start it again.

mod networks;
mod removals;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use tokio::time::timeout;

use super::call::CallError;
use super::claim::{Claim, ClearProgress, Cleared, Times};
use super::client::Client;
use super::proof::Candidate;
use super::responses::ListedContainer;
use crate::containers::{
    ContainerView, Endpoint, EngineResidue, EngineState, RemovedContainer, Unreachable,
};
use removals::Removals;

/// Minimum time between the two empty lists.
const BETWEEN_LISTS: Duration = Duration::from_millis(100);
/// First delay after a failure. It doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Longest delay while the engine does not respond.
const LONGEST_BACKOFF: Duration = Duration::from_secs(5);

/// Removes the containers and networks of an instance, within [`Times::limit`]. Calls `on_progress` for each detached
/// container that is gone, and after each list request.
pub(crate) async fn clear(
    endpoint: &Endpoint,
    claim: &Claim,
    times: &Times,
    on_progress: &mut (dyn FnMut(ClearProgress) + Send),
) -> Cleared {
    let mut clearing = Clearing::new(endpoint, claim, times);
    match timeout(times.limit, clearing.run(on_progress)).await {
        Ok(kept_networks) => Cleared::Gone { kept_networks },
        Err(_) => Cleared::Unverified(clearing.residue),
    }
}

/// The same for callers without a runtime.
#[cfg(test)]
pub(crate) fn clear_blocking(
    endpoint: &Endpoint,
    claim: &Claim,
    times: &Times,
    on_progress: &mut (dyn FnMut(ClearProgress) + Send),
) -> Cleared {
    match block_on(clear(endpoint, claim, times, on_progress)) {
        Ok(cleared) => cleared,
        Err(error) => {
            let engine = Unreachable { endpoint: endpoint.to_string(), reason: error.to_string() };
            Cleared::Unverified(EngineResidue::Unreachable(engine))
        }
    }
}

/// Lists all containers in an engine that carry an instance label, of all owners.
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
    Ok(listed.map_err(unreachable)?.into_iter().filter_map(ListedContainer::view).collect())
}

/// The same for callers without a runtime.
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

/// State of a removal.
struct Clearing<'a> {
    endpoint: &'a Endpoint,
    claim: &'a Claim,
    times: &'a Times,
    client: Option<Client>,
    removals: Removals,
    since: Instant,
    /// All containers that were ever listed, with the number of the first list that had them.
    seen: BTreeMap<String, usize>,
    /// Number of lists so far.
    lists: usize,
    /// Containers that inherited the label from their image.
    inherited: BTreeSet<String>,
    /// Detached containers, to be reported when they are gone.
    detached: BTreeMap<String, RemovedContainer>,
    pause: Duration,
    /// What is left, according to the last list.
    residue: EngineResidue,
}

impl<'a> Clearing<'a> {
    fn new(endpoint: &'a Endpoint, claim: &'a Claim, times: &'a Times) -> Self {
        let nothing_yet = Unreachable {
            endpoint: endpoint.to_string(),
            reason: format!("it did not respond within {:?}", times.limit),
        };
        Self {
            endpoint,
            claim,
            times,
            client: None,
            removals: Removals::new(times.grace, claim.made.clone()),
            since: Instant::now(),
            seen: BTreeMap::new(),
            lists: 0,
            inherited: BTreeSet::new(),
            detached: BTreeMap::new(),
            pause: FIRST_PAUSE,
            residue: EngineResidue::Unreachable(nothing_yet),
        }
    }

    /// Runs until nothing is left. Returns the networks that were kept.
    async fn run(&mut self, on_progress: &mut (dyn FnMut(ClearProgress) + Send)) -> Vec<String> {
        let mut empty_since: Option<Instant> = None;
        loop {
            let listing = self.list_containers(on_progress).await;
            on_progress(ClearProgress::State(if listing.is_ok() {
                EngineState::Answering
            } else {
                EngineState::Silent
            }));
            match listing {
                Ok(Listing::Empty)
                    if empty_since.is_some_and(|at| at.elapsed() >= BETWEEN_LISTS) =>
                {
                    match self.networks().await {
                        Ok(Some(kept)) => return kept,
                        Ok(None) => self.pause(LONGEST_PAUSE).await,
                        Err(error) => self.back_off(&error).await,
                    }
                }
                Ok(Listing::Empty) => {
                    empty_since.get_or_insert_with(Instant::now);
                    tokio::time::sleep(BETWEEN_LISTS).await;
                }
                Ok(listing) => {
                    empty_since = None;
                    self.act(listing).await;
                }
                Err(error) => {
                    empty_since = None;
                    self.back_off(&error).await;
                }
            }
        }
    }

    /// Lists the containers of the instance, and reports detached ones that are gone.
    async fn list_containers(
        &mut self,
        on_progress: &mut (dyn FnMut(ClearProgress) + Send),
    ) -> Result<Listing, CallError> {
        // Read before the list: a create that completes after the list is not in it.
        let may_appear = self.claim.creates.may_appear(self.since, self.appeared());
        let listed = self.client().await?.containers_of(self.claim.instance).await?;
        let listed = listed.into_iter().filter_map(ListedContainer::candidate);
        let listed: Vec<Candidate> = listed.filter(|one| self.may_be_ours(&one.view.id)).collect();
        let ids: BTreeSet<&String> = listed.iter().map(|one| &one.view.id).collect();
        let gone: Vec<String> =
            self.detached.keys().filter(|id| !ids.contains(id)).cloned().collect();
        let gone = gone.iter().filter_map(|id| self.detached.remove(id));
        gone.map(ClearProgress::Removed).for_each(&mut *on_progress);
        for one in &listed {
            if !self.seen.contains_key(&one.view.id) {
                self.seen.insert(one.view.id.clone(), self.lists);
                self.pause = FIRST_PAUSE;
            }
        }
        self.lists += 1;
        Ok(match (listed.is_empty(), may_appear) {
            (false, _) => {
                self.residue = EngineResidue::Containers(self.removals.left_of(&listed));
                Listing::Containers(listed)
            }
            (true, may_appear) => {
                self.residue = EngineResidue::Creating;
                if may_appear { Listing::Creating } else { Listing::Empty }
            }
        })
    }

    /// Number of containers that were not in the first list.
    fn appeared(&self) -> usize {
        self.seen.values().filter(|list| **list > 0).count()
    }

    /// False if the container inherited its label, unless the response to its create has arrived since that was
    /// found.
    fn may_be_ours(&self, id: &str) -> bool {
        !self.inherited.contains(id) || self.claim.made.contains(id)
    }

    async fn act(&mut self, listing: Listing) {
        let Listing::Containers(listed) = listing else {
            return tokio::time::sleep(BETWEEN_LISTS).await;
        };
        let Some(client) = self.client.clone() else { return };
        let round = self.removals.run_round(&client, listed, self.pause).await;
        self.detached.extend(round.detached.into_iter().map(|one| (one.id.clone(), one)));
        // The user's own containers must not count as appeared creates.
        self.seen.retain(|id, _| !round.inherited.contains(id));
        self.inherited.extend(round.inherited);
        self.pause = if round.all_went { FIRST_PAUSE } else { (self.pause * 2).min(LONGEST_PAUSE) };
    }

    /// The connected client. Negotiates the API version only once.
    async fn client(&mut self) -> Result<Client, CallError> {
        if let Some(client) = &self.client {
            return Ok(client.clone());
        }
        let client = Client::connect(self.endpoint, self.times.call).await?;
        Ok(self.client.insert(client).clone())
    }

    /// Waits after a failed request.
    async fn back_off(&mut self, error: &CallError) {
        self.residue = EngineResidue::Unreachable(unreachable(self.endpoint, error));
        // The engine may come back with another version.
        self.client = None;
        self.pause(LONGEST_BACKOFF).await;
    }

    async fn pause(&mut self, longest: Duration) {
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(longest);
    }
}

/// Result of one list request.
enum Listing {
    Containers(Vec<Candidate>),
    /// No container, but a create is pending.
    Creating,
    Empty,
}
