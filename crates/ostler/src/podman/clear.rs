//! Removes what an instance has in podman's stores, with the podman command.
//!
//! For each store in the note: lists the containers with the instance's label, checks which ones the instance created,
//! and removes them, until two lists in a row are empty. Pods and networks follow. The exit status of a removal proves
//! nothing; only the next list counts.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;

use super::command::{Podman, PodmanError};
use super::output::{Network, Pod, PodmanContainer};
use super::ownership::OwnershipCheck;
use super::store::{Store, noted};
use crate::containers::{ContainerView, EngineResidue, RemovedContainer, Unreachable};
use crate::engine::argv::CreateKind;
use crate::engine::label::{INSTANCE, LabelMap};
use crate::engine::{ContainerDetails, ImageDetails};
use crate::id::InstanceId;
use crate::notes::remove_podman_note;
use crate::remains;

/// Delay between two lists, and after a failure.
const BETWEEN_LISTS: Duration = Duration::from_millis(100);
/// Minimum time limit of a query, even if the deadline has passed.
const LAST_QUERY: Duration = Duration::from_secs(1);
/// Most objects that one command removes.
const AT_A_TIME: usize = 16;

/// Options of a removal.
pub(crate) struct ClearOptions<'a> {
    /// Time limit for each store. The removal can be started again.
    pub(crate) limit: Duration,
    /// When the teardown began, in seconds since 1970: a container that exited later was stopped by it.
    pub(crate) since: i64,
    /// Called for each detached container that was running and is gone.
    pub(crate) removed: Option<&'a mut dyn FnMut(RemovedContainer)>,
}

/// Removes everything that the note lists, then the note. No process of the server may be left, because it could create
/// more.
pub(crate) fn clear(
    book: &Path,
    instance: InstanceId,
    podman: &Podman,
    options: &mut ClearOptions<'_>,
) -> Result<(), EngineResidue> {
    let noted = noted(book, instance).map_err(|error| {
        let (endpoint, reason) = ("podman".to_owned(), error.to_string());
        EngineResidue::Unreachable(Unreachable { endpoint, reason })
    })?;
    // A store that can't be cleared must not keep the others from being cleared.
    let clear = |(store, things)| clear_store(store, things, instance, podman, options);
    let failures: Vec<EngineResidue> = noted.iter().map(clear).filter_map(Result::err).collect();
    if !noted.is_empty() {
        // For an unprivileged user podman leaves its pause process behind.
        remains::end_marked(&[instance], Instant::now() + options.limit);
    }
    if let Some(failure) = failures.into_iter().next() {
        return Err(failure);
    }
    remove_podman_note(book, instance);
    Ok(())
}

fn clear_store(
    store: &Store,
    things: &BTreeSet<CreateKind>,
    instance: InstanceId,
    podman: &Podman,
    options: &mut ClearOptions<'_>,
) -> Result<(), EngineResidue> {
    let deadline = Instant::now() + options.limit;
    let clearing = StoreClearing { podman, store, instance, deadline };
    clearing.clear_containers(options)?;
    if things.contains(&CreateKind::Pod) {
        let remove = ["pod", "rm", "--force", "--time", "0"];
        clearing.remove_until_none(StoreClearing::pods, &remove, EngineResidue::Pods)?;
    }
    if things.contains(&CreateKind::Network) {
        clearing.remove_until_none(
            StoreClearing::networks,
            &["network", "rm"],
            EngineResidue::Networks,
        )?;
    }
    Ok(())
}

/// Lists the containers in a store that carry any instance's label.
pub(crate) fn list(
    podman: &Podman,
    store: &Store,
    limit: Duration,
) -> Result<Vec<ContainerView>, Unreachable> {
    let words = ["ps", "--all", "--no-trunc", "--filter", &format!("label={INSTANCE}")];
    let listed: Result<Vec<PodmanContainer>, PodmanError> =
        read((podman, store), None, &words, limit);
    let listed = listed.map_err(|error| unreachable(store, &error))?;
    Ok(listed.iter().filter_map(PodmanContainer::view).collect())
}

/// Lists the containers with an instance's label, in any state.
pub(super) fn listed(
    podman: &Podman,
    store: &Store,
    instance: InstanceId,
    limit: Duration,
) -> Result<Vec<PodmanContainer>, PodmanError> {
    let words = ["ps", "--all", "--no-trunc", "--filter", &filter(instance)];
    let listed: Vec<PodmanContainer> = read((podman, store), Some(instance), &words, limit)?;
    // Checked here again: a removal must not depend on how podman implements the filter.
    Ok(listed.into_iter().filter(|one| one.is_of(instance)).collect())
}

/// One store that is being cleared.
struct StoreClearing<'a> {
    podman: &'a Podman,
    store: &'a Store,
    instance: InstanceId,
    deadline: Instant,
}

impl StoreClearing<'_> {
    /// Removes the instance's containers until two lists in a row are empty.
    fn clear_containers(&self, options: &mut ClearOptions<'_>) -> Result<(), EngineResidue> {
        let (mut empty_lists, mut tracker) = (0, DetachedTracker::default());
        let mut check = OwnershipCheck::default();
        loop {
            let Some(listed) = self.try_query(StoreClearing::containers)? else {
                empty_lists = 0;
                continue;
            };
            let (ours, doubted) = check.sort(listed, |image| self.image_labels(image));
            if let Some(removed) = &mut options.removed {
                tracker.observe(self, &ours, options.since, removed);
            }
            let is_empty = ours.is_empty() && doubted.is_empty();
            empty_lists = if is_empty { empty_lists + 1 } else { 0 };
            if empty_lists == 2 {
                return Ok(());
            }
            let views: Vec<ContainerView> = ours.iter().filter_map(PodmanContainer::view).collect();
            if self.left().is_zero() {
                let left = views.iter().map(Into::into).chain(doubted).collect();
                return Err(EngineResidue::Containers(left));
            }
            let ids: Vec<&str> = views.iter().map(|view| view.id.as_str()).collect();
            self.remove(&["rm", "--force", "--time", "0", "--volumes"], &ids);
            sleep(BETWEEN_LISTS);
        }
    }

    /// The containers of the instance, without infra containers, which are removed with their pod.
    fn containers(&self, limit: Duration) -> Result<Vec<PodmanContainer>, PodmanError> {
        let listed = listed(self.podman, self.store, self.instance, limit)?;
        Ok(listed.into_iter().filter(|one| !one.is_infra()).collect())
    }

    fn image_labels(&self, image: &str) -> Result<LabelMap, PodmanError> {
        let words = ["image", "inspect", image];
        let told = self.podman.query(
            self.store,
            Some(self.instance),
            &words,
            self.left().max(LAST_QUERY),
        )?;
        let [image]: [ImageDetails; 1] = serde_json::from_slice(&told)?;
        Ok(image.into_labels())
    }

    /// Removes what `find` returns until it returns nothing; `left` turns the rest into a residue.
    fn remove_until_none(
        &self,
        find: impl Fn(&Self, Duration) -> Result<Vec<String>, PodmanError>,
        command: &[&str],
        left: fn(Vec<String>) -> EngineResidue,
    ) -> Result<(), EngineResidue> {
        loop {
            let Some(found) = self.try_query(&find)? else { continue };
            if found.is_empty() {
                return Ok(());
            }
            if self.left().is_zero() {
                return Err(left(found));
            }
            self.remove(command, &found.iter().map(String::as_str).collect::<Vec<_>>());
        }
    }

    /// Pods of the instance without other containers.
    fn pods(&self, limit: Duration) -> Result<Vec<String>, PodmanError> {
        let words = ["pod", "ps", "--no-trunc", "--filter", &filter(self.instance)];
        let pods: Vec<Pod> = read((self.podman, self.store), Some(self.instance), &words, limit)?;
        let free = pods.into_iter().filter(|pod| pod.is_of(self.instance) && pod.is_empty());
        Ok(free.map(|pod| pod.id).collect())
    }

    /// Networks of the instance that no container uses.
    fn networks(&self, limit: Duration) -> Result<Vec<String>, PodmanError> {
        let words = ["network", "ls", "--no-trunc", "--filter", &filter(self.instance)];
        let networks: Vec<Network> =
            read((self.podman, self.store), Some(self.instance), &words, limit)?;
        let mut free = Vec::new();
        for network in networks.into_iter().filter(|network| network.is_of(self.instance)) {
            let words = ["ps", "--all", "--filter", &format!("network={}", network.name)];
            let others: Vec<PodmanContainer> =
                read((self.podman, self.store), Some(self.instance), &words, limit)?;
            free.extend(others.is_empty().then_some(network.name));
        }
        Ok(free)
    }

    /// Runs a query. `None` if it failed and there is time to try again.
    fn try_query<T>(
        &self,
        query: impl Fn(&Self, Duration) -> Result<Vec<T>, PodmanError>,
    ) -> Result<Option<Vec<T>>, EngineResidue> {
        let left = self.left();
        match query(self, left.max(LAST_QUERY)) {
            Ok(found) => Ok(Some(found)),
            Err(_) if !left.is_zero() => {
                sleep(BETWEEN_LISTS);
                Ok(None)
            }
            Err(error) => Err(EngineResidue::Unreachable(unreachable(self.store, &error))),
        }
    }

    /// Ignores failures: the next list shows what is left.
    fn remove(&self, command: &[&str], ids: &[&str]) {
        for some in ids.chunks(AT_A_TIME) {
            let words = [command, some].concat();
            let _ = self.podman.query(self.store, Some(self.instance), &words, self.left());
        }
    }

    fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }
}

/// Remembers detached containers that were running, and reports them when they are gone.
#[derive(Default)]
struct DetachedTracker {
    seen: BTreeSet<String>,
    detached: BTreeMap<String, RemovedContainer>,
}

impl DetachedTracker {
    fn observe(
        &mut self,
        clearing: &StoreClearing<'_>,
        listed: &[PodmanContainer],
        since: i64,
        removed: &mut dyn FnMut(RemovedContainer),
    ) {
        let fresh =
            listed.iter().filter(|one| one.has_run(since)).filter_map(PodmanContainer::view);
        let fresh: Vec<ContainerView> =
            fresh.filter(|view| self.seen.insert(view.id.clone())).collect();
        let detached = detached(clearing, &fresh);
        self.detached.extend(detached.map(|view| (view.id.clone(), view.into())));
        let there: BTreeSet<String> =
            listed.iter().filter_map(PodmanContainer::view).map(|view| view.id).collect();
        self.detached.extract_if(.., |id, _| !there.contains(id)).for_each(|(_, one)| removed(one));
    }
}

/// The containers that were created without an attached client.
fn detached<'v>(
    clearing: &StoreClearing<'_>,
    views: &'v [ContainerView],
) -> impl Iterator<Item = &'v ContainerView> {
    let ids = views.iter().map(|view| view.id.as_str());
    let words: Vec<&str> = ["container", "inspect"].into_iter().chain(ids).collect();
    let described = (!views.is_empty()).then(|| {
        clearing.podman.query(clearing.store, Some(clearing.instance), &words, clearing.left())
    });
    // If the inspection fails, the removal is only not reported.
    let described = described.and_then(|text| serde_json::from_slice(&text.ok()?).ok());
    let described: Vec<ContainerDetails> = described.unwrap_or_default();
    let is_detached = move |view: &&ContainerView| {
        described.iter().any(|one| one.is_of(&view.id) && one.is_detached())
    };
    views.iter().filter(is_detached)
}

fn read<T: DeserializeOwned>(
    (podman, store): (&Podman, &Store),
    instance: Option<InstanceId>,
    words: &[&str],
    limit: Duration,
) -> Result<Vec<T>, PodmanError> {
    let words = [words, &["--format", "json"]].concat();
    Ok(serde_json::from_slice(&podman.query(store, instance, &words, limit)?)?)
}

fn filter(instance: InstanceId) -> String {
    format!("label={INSTANCE}={instance}")
}

fn unreachable(store: &Store, error: &PodmanError) -> Unreachable {
    Unreachable { endpoint: store.to_string(), reason: error.to_string() }
}
