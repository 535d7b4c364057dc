//! Removing what an instance has in podman's books, by podman itself.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;

use super::answers::{Listed, Network, Pod};
use super::command::{NoAnswer, Podman};
use super::store::{Store, noted};
use super::whose::Whose;
use crate::containers::{ContainerView, EngineResidue, RemovedContainer, Unreachable};
use crate::engine::argv::Thing;
use crate::engine::label::{INSTANCE, LabelMap};
use crate::engine::{Details, Image};
use crate::id::InstanceId;
use crate::notes::remove_podman_note;
use crate::remains;

/// Between two lists that have to be empty, and after a removal that has not succeeded.
const BETWEEN_LISTS: Duration = Duration::from_millis(100);
/// For an answer that is waited for although there is no time left.
const LAST_QUESTION: Duration = Duration::from_secs(1);
/// How many are removed by one command.
const AT_A_TIME: usize = 16;

/// How a removal is done.
pub(crate) struct Clearance<'a> {
    /// Until what is left is told, for each of the books. The removal can then be begun again.
    pub(crate) limit: Duration,
    /// What has ended since then, in seconds since 1970, has ended with the server.
    pub(crate) since: i64,
    /// Is told of each container that was meant to go on by itself, once it is gone.
    pub(crate) removed: Option<&'a mut dyn FnMut(RemovedContainer)>,
}

/// Removes all that is noted, and then takes the note back. No process of the server may be left: one
/// that is could create more.
pub(crate) fn clear(
    book: &Path,
    instance: InstanceId,
    podman: &Podman,
    clearance: &mut Clearance<'_>,
) -> Result<(), EngineResidue> {
    let noted = noted(book, instance).map_err(|error| {
        let (endpoint, reason) = ("podman".to_owned(), error.to_string());
        EngineResidue::Unreachable(Unreachable { endpoint, reason })
    })?;
    // One that can't be cleared keeps nobody from clearing the others.
    let clear = |(store, things)| clear_store(store, things, instance, podman, clearance);
    let failures: Vec<EngineResidue> = noted.iter().map(clear).filter_map(Result::err).collect();
    if !noted.is_empty() {
        // For an unprivileged user podman leaves a process of its own behind.
        remains::end_marked(&[instance], Instant::now() + clearance.limit);
    }
    if let Some(failure) = failures.into_iter().next() {
        return Err(failure);
    }
    remove_podman_note(book, instance);
    Ok(())
}

fn clear_store(
    store: &Store,
    things: &BTreeSet<Thing>,
    instance: InstanceId,
    podman: &Podman,
    clearance: &mut Clearance<'_>,
) -> Result<(), EngineResidue> {
    let deadline = Instant::now() + clearance.limit;
    let books = Books { podman, store, instance, deadline };
    books.clear_containers(clearance)?;
    if things.contains(&Thing::Pod) {
        let remove = ["pod", "rm", "--force", "--time", "0"];
        books.exhaust(Books::pods, &remove, EngineResidue::Pods)?;
    }
    if things.contains(&Thing::Network) {
        books.exhaust(Books::networks, &["network", "rm"], EngineResidue::Networks)?;
    }
    Ok(())
}

/// All containers of ours in these books, of all instances.
pub(crate) fn list(
    podman: &Podman,
    store: &Store,
    limit: Duration,
) -> Result<Vec<ContainerView>, Unreachable> {
    let words = ["ps", "--all", "--no-trunc", "--filter", &format!("label={INSTANCE}")];
    let listed: Result<Vec<Listed>, NoAnswer> = read((podman, store), None, &words, limit);
    let listed = listed.map_err(|error| unreachable(store, &error))?;
    Ok(listed.iter().filter_map(Listed::view).collect())
}

/// The containers of an instance, whatever their state.
pub(super) fn listed(
    podman: &Podman,
    store: &Store,
    instance: InstanceId,
    limit: Duration,
) -> Result<Vec<Listed>, NoAnswer> {
    let words = ["ps", "--all", "--no-trunc", "--filter", &filter(instance)];
    let listed: Vec<Listed> = read((podman, store), Some(instance), &words, limit)?;
    // What is removed is never left to how podman understands a filter.
    Ok(listed.into_iter().filter(|one| one.is_of(instance)).collect())
}

/// The books that are being cleared.
struct Books<'a> {
    podman: &'a Podman,
    store: &'a Store,
    instance: InstanceId,
    deadline: Instant,
}

impl Books<'_> {
    /// Podman's word on a removal proves nothing: it may fail once and succeed the next time.
    fn clear_containers(&self, clearance: &mut Clearance<'_>) -> Result<(), EngineResidue> {
        let (mut empty_lists, mut witness) = (0, Witness::default());
        let mut whose = Whose::default();
        loop {
            let Some(listed) = self.insist(Books::containers)? else {
                empty_lists = 0;
                continue;
            };
            let (ours, doubted) = whose.sort(listed, |image| self.image_labels(image));
            if let Some(removed) = &mut clearance.removed {
                witness.see(self, &ours, clearance.since, removed);
            }
            let is_empty = ours.is_empty() && doubted.is_empty();
            empty_lists = if is_empty { empty_lists + 1 } else { 0 };
            if empty_lists == 2 {
                return Ok(());
            }
            let views: Vec<ContainerView> = ours.iter().filter_map(Listed::view).collect();
            if self.left().is_zero() {
                let left = views.iter().map(Into::into).chain(doubted).collect();
                return Err(EngineResidue::Containers(left));
            }
            let ids: Vec<&str> = views.iter().map(|view| view.id.as_str()).collect();
            self.remove(&["rm", "--force", "--time", "0", "--volumes"], &ids);
            sleep(BETWEEN_LISTS);
        }
    }

    /// What holds a pod together goes with that.
    fn containers(&self, limit: Duration) -> Result<Vec<Listed>, NoAnswer> {
        let listed = listed(self.podman, self.store, self.instance, limit)?;
        Ok(listed.into_iter().filter(|one| !one.is_infra()).collect())
    }

    fn image_labels(&self, image: &str) -> Result<LabelMap, NoAnswer> {
        let words = ["image", "inspect", image];
        let told = self.podman.ask(
            self.store,
            Some(self.instance),
            &words,
            self.left().max(LAST_QUESTION),
        )?;
        let [image]: [Image; 1] = serde_json::from_slice(&told)?;
        Ok(image.into_labels())
    }

    /// Removes what is found until nothing is; `left` says what that is.
    fn exhaust(
        &self,
        find: impl Fn(&Self, Duration) -> Result<Vec<String>, NoAnswer>,
        command: &[&str],
        left: fn(Vec<String>) -> EngineResidue,
    ) -> Result<(), EngineResidue> {
        loop {
            let Some(found) = self.insist(&find)? else { continue };
            if found.is_empty() {
                return Ok(());
            }
            if self.left().is_zero() {
                return Err(left(found));
            }
            self.remove(command, &found.iter().map(String::as_str).collect::<Vec<_>>());
        }
    }

    /// Pods of the instance that nobody else's container is in.
    fn pods(&self, limit: Duration) -> Result<Vec<String>, NoAnswer> {
        let words = ["pod", "ps", "--no-trunc", "--filter", &filter(self.instance)];
        let pods: Vec<Pod> = read((self.podman, self.store), Some(self.instance), &words, limit)?;
        let free = pods.into_iter().filter(|pod| pod.is_of(self.instance) && pod.is_empty());
        Ok(free.map(|pod| pod.id).collect())
    }

    /// Networks of the instance that nobody else's container is on.
    fn networks(&self, limit: Duration) -> Result<Vec<String>, NoAnswer> {
        let words = ["network", "ls", "--no-trunc", "--filter", &filter(self.instance)];
        let networks: Vec<Network> =
            read((self.podman, self.store), Some(self.instance), &words, limit)?;
        let mut free = Vec::new();
        for network in networks.into_iter().filter(|network| network.is_of(self.instance)) {
            let words = ["ps", "--all", "--filter", &format!("network={}", network.name)];
            let others: Vec<Listed> =
                read((self.podman, self.store), Some(self.instance), &words, limit)?;
            free.extend(others.is_empty().then_some(network.name));
        }
        Ok(free)
    }

    /// What podman says, or `None` if it has to be asked again.
    fn insist<T>(
        &self,
        question: impl Fn(&Self, Duration) -> Result<Vec<T>, NoAnswer>,
    ) -> Result<Option<Vec<T>>, EngineResidue> {
        let left = self.left();
        match question(self, left.max(LAST_QUESTION)) {
            Ok(answer) => Ok(Some(answer)),
            Err(_) if !left.is_zero() => {
                sleep(BETWEEN_LISTS);
                Ok(None)
            }
            Err(error) => Err(EngineResidue::Unreachable(unreachable(self.store, &error))),
        }
    }

    /// What comes of it shows in the next list.
    fn remove(&self, command: &[&str], ids: &[&str]) {
        for some in ids.chunks(AT_A_TIME) {
            let words = [command, some].concat();
            let _ = self.podman.ask(self.store, Some(self.instance), &words, self.left());
        }
    }

    fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }
}

/// Knows which containers were meant to go on by themselves, and tells of them when they are gone.
#[derive(Default)]
struct Witness {
    seen: BTreeSet<String>,
    detached: BTreeMap<String, RemovedContainer>,
}

impl Witness {
    fn see(
        &mut self,
        books: &Books<'_>,
        listed: &[Listed],
        since: i64,
        removed: &mut dyn FnMut(RemovedContainer),
    ) {
        let fresh = listed.iter().filter(|one| one.has_run(since)).filter_map(Listed::view);
        let fresh: Vec<ContainerView> =
            fresh.filter(|view| self.seen.insert(view.id.clone())).collect();
        let detached = detached(books, &fresh);
        self.detached.extend(detached.map(|view| (view.id.clone(), view.into())));
        let there: BTreeSet<String> =
            listed.iter().filter_map(Listed::view).map(|view| view.id).collect();
        self.detached.extract_if(.., |id, _| !there.contains(id)).for_each(|(_, one)| removed(one));
    }
}

/// Those that were made to run with nobody listening.
fn detached<'v>(
    books: &Books<'_>,
    views: &'v [ContainerView],
) -> impl Iterator<Item = &'v ContainerView> {
    let ids = views.iter().map(|view| view.id.as_str());
    let words: Vec<&str> = ["container", "inspect"].into_iter().chain(ids).collect();
    let described = (!views.is_empty())
        .then(|| books.podman.ask(books.store, Some(books.instance), &words, books.left()));
    // Without a description it is only not told of.
    let described = described.and_then(|text| serde_json::from_slice(&text.ok()?).ok());
    let described: Vec<Details> = described.unwrap_or_default();
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
) -> Result<Vec<T>, NoAnswer> {
    let words = [words, &["--format", "json"]].concat();
    Ok(serde_json::from_slice(&podman.ask(store, instance, &words, limit)?)?)
}

fn filter(instance: InstanceId) -> String {
    format!("label={INSTANCE}={instance}")
}

fn unreachable(store: &Store, error: &NoAnswer) -> Unreachable {
    Unreachable { endpoint: store.to_string(), reason: error.to_string() }
}
