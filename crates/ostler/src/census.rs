//! Census: lists the containers of all instances, as their engines report them.
//!
//! Only engines that a note beside a ledger names are asked, each once and all in parallel. An engine
//! that hangs does not delay the others, and the whole takes at most [`PODMAN_LIMIT`].

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

/// Time limit for an engine's list. Short, because a user waits for it at a terminal.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);
/// Time limit for podman, which has to be started first.
const PODMAN_LIMIT: Duration = Duration::from_secs(5);

type EngineReply = Result<Vec<ContainerView>, Unreachable>;

/// A source that lists containers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Source {
    Engine(Endpoint),
    /// Podman's own store.
    Podman(Store, Level),
}

/// The lists of all engines.
#[derive(Clone, Debug, Default)]
pub struct Census {
    /// The sources in which each instance may have containers.
    sources: BTreeMap<InstanceId, Vec<Source>>,
    replies: HashMap<Source, EngineReply>,
}

/// Containers of one instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Holding {
    /// Its containers, as far as engines answered.
    pub containers: Vec<ContainerView>,
    /// An engine that did not reply. There may be more containers then.
    pub unreachable: Option<Unreachable>,
}

impl Census {
    /// Asks all engines in which an instance of these ledgers may have containers.
    pub fn take<'b>(books: impl IntoIterator<Item = &'b Book>) -> Self {
        let sources: BTreeMap<InstanceId, Vec<Source>> =
            books.into_iter().flat_map(noted).collect();
        let distinct: HashSet<Source> = sources.values().flatten().cloned().collect();
        Self { sources, replies: ask(&distinct) }
    }

    /// The containers of one instance.
    pub fn of(&self, instance: InstanceId) -> Holding {
        let sources = self.sources.get(&instance).into_iter().flatten();
        let mut replies = sources.filter_map(|source| self.replies.get(source));
        let unreachable = replies.find_map(|reply| reply.as_ref().err().cloned());
        let own = self.containers().filter(|one| one.instance == instance);
        Holding { containers: own.cloned().collect(), unreachable }
    }

    /// All containers, even of instances that no ledger knows. Each is listed once, even if two
    /// addresses lead to the same engine.
    pub fn containers(&self) -> impl Iterator<Item = &ContainerView> {
        let told = self.replies.values().flatten().flatten();
        let by_id: BTreeMap<&str, &ContainerView> =
            told.map(|one| (one.id.as_str(), one)).collect();
        by_id.into_values()
    }

    /// The engines that did not reply.
    pub fn unreachable(&self) -> impl Iterator<Item = &Unreachable> {
        self.replies.values().filter_map(|reply| reply.as_ref().err())
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
    async fn list(self) -> EngineReply {
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

fn ask(sources: &HashSet<Source>) -> HashMap<Source, EngineReply> {
    if sources.is_empty() {
        return HashMap::new();
    }
    block_on(ask_all(sources.clone())).unwrap_or_else(|error| {
        let unasked = |source: &Source| (source.clone(), Err(unasked(source.name(), &error)));
        sources.iter().map(unasked).collect()
    })
}

async fn ask_all(sources: HashSet<Source>) -> HashMap<Source, EngineReply> {
    let mut queries = JoinSet::new();
    for source in sources {
        queries.spawn(async move { (source.clone(), source.list().await) });
    }
    queries.join_all().await.into_iter().collect()
}
