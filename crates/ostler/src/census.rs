//! Which containers there are now, as their engines say.
//!
//! Only engines are asked that a note beside a ledger names, each once and all at the same time: one
//! that hangs takes the others no time, and nobody more than [`PODMAN_LIMIT`].

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use tokio::task::{JoinSet, spawn_blocking};

use crate::containers::{ContainerView, Endpoint, Unreachable};
use crate::engine::clear::{block_on, list};
use crate::id::InstanceId;
use crate::ledger::Book;
use crate::level::Level;
use crate::podman::{self, Podman, Store};
use crate::terms::GuardianProgram;
use crate::ways::noted_engines;

/// For an engine to say what it has. Somebody is waiting for it at a terminal.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);
/// The same for podman, which has to be started for it.
const PODMAN_LIMIT: Duration = Duration::from_secs(5);

type Answer = Result<Vec<ContainerView>, Unreachable>;

/// Who knows of containers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Source {
    Engine(Endpoint),
    /// Podman's own books.
    Podman(Store, Level),
}

/// What all engines said.
#[derive(Clone, Debug, Default)]
pub struct Census {
    /// In what each instance may have containers.
    sources: BTreeMap<InstanceId, Vec<Source>>,
    answers: HashMap<Source, Answer>,
}

/// What an instance has in its engines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Holding {
    /// Its containers, as far as the engines say.
    pub containers: Vec<ContainerView>,
    /// Why one of them does not say. There may be more containers then.
    pub unreachable: Option<Unreachable>,
}

impl Census {
    /// Asks all engines in which instances of these ledgers may have containers.
    pub fn take<'b>(books: impl IntoIterator<Item = &'b Book>) -> Self {
        let sources: BTreeMap<InstanceId, Vec<Source>> =
            books.into_iter().flat_map(noted).collect();
        let distinct: HashSet<Source> = sources.values().flatten().cloned().collect();
        Self { sources, answers: ask(&distinct) }
    }

    /// What this instance has.
    pub fn of(&self, instance: InstanceId) -> Holding {
        let sources = self.sources.get(&instance).into_iter().flatten();
        let mut answers = sources.filter_map(|source| self.answers.get(source));
        let unreachable = answers.find_map(|answer| answer.as_ref().err().cloned());
        let own = self.containers().filter(|one| one.instance == instance);
        Holding { containers: own.cloned().collect(), unreachable }
    }

    /// All containers that were told of, also of instances that no ledger knows. Each is told of once,
    /// also if there is more than one way to whoever knows it.
    pub fn containers(&self) -> impl Iterator<Item = &ContainerView> {
        let told = self.answers.values().flatten().flatten();
        let by_id: BTreeMap<&str, &ContainerView> =
            told.map(|one| (one.id.as_str(), one)).collect();
        by_id.into_values()
    }

    /// The engines that did not say what they have.
    pub fn unreachable(&self) -> impl Iterator<Item = &Unreachable> {
        self.answers.values().filter_map(|answer| answer.as_ref().err())
    }
}

fn noted(book: &Book) -> impl Iterator<Item = (InstanceId, Vec<Source>)> {
    let directory: &Path = &book.directory;
    book.open_entries().map(move |(id, entry)| {
        let engines = noted_engines(directory, id, &entry.intent.ways).map(Source::Engine);
        let stores = podman::noted(directory, id).unwrap_or_default().into_keys();
        let stores = stores.map(|store| Source::Podman(store, entry.level()));
        (id, engines.chain(stores).collect())
    })
}

impl Source {
    async fn list(self) -> Answer {
        match self {
            Self::Engine(endpoint) => list(&endpoint, ANSWER_LIMIT).await,
            Self::Podman(store, level) => {
                let name = store.to_string();
                let podman = Podman::own(level, GuardianProgram::Myself);
                let ask = move || podman::list(&podman, &store, PODMAN_LIMIT);
                let listed = spawn_blocking(ask).await;
                listed.unwrap_or_else(|error| Err(unasked(name, &error)))
            }
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Engine(endpoint) => endpoint.to_string(),
            Self::Podman(store, _) => store.to_string(),
        }
    }
}

fn unasked(endpoint: String, error: &dyn std::error::Error) -> Unreachable {
    Unreachable { endpoint, reason: error.to_string() }
}

fn ask(sources: &HashSet<Source>) -> HashMap<Source, Answer> {
    if sources.is_empty() {
        return HashMap::new();
    }
    block_on(ask_all(sources.clone())).unwrap_or_else(|error| {
        let unasked = |source: &Source| (source.clone(), Err(unasked(source.name(), &error)));
        sources.iter().map(unasked).collect()
    })
}

async fn ask_all(sources: HashSet<Source>) -> HashMap<Source, Answer> {
    let mut questions = JoinSet::new();
    for source in sources {
        questions.spawn(async move { (source.clone(), source.list().await) });
    }
    questions.join_all().await.into_iter().collect()
}
