//! Which containers there are now, as their engines say.
//!
//! Only engines are asked that a note beside a ledger names, each once and all at the same time: one
//! that hangs takes the others no time, and nobody more than [`ANSWER_LIMIT`].

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use tokio::task::JoinSet;

use crate::door::remains::noted_engines;
use crate::engine::clear::{block_on, list};
use crate::engine::{ContainerView, Endpoint, Unreachable};
use crate::id::InstanceId;
use crate::ledger::{Book, Entry};

/// For an engine to say what it has. Somebody is waiting for it at a terminal.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);

type Answer = Result<Vec<ContainerView>, Unreachable>;

/// What all engines said.
#[derive(Clone, Debug, Default)]
pub struct Census {
    /// The engines of each instance that may have containers.
    engines: BTreeMap<InstanceId, Vec<Endpoint>>,
    answers: HashMap<Endpoint, Answer>,
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
        let engines: BTreeMap<InstanceId, Vec<Endpoint>> =
            books.into_iter().flat_map(noted).collect();
        let distinct: HashSet<Endpoint> = engines.values().flatten().cloned().collect();
        Self { engines, answers: ask(&distinct) }
    }

    /// What this instance has.
    pub fn of(&self, instance: InstanceId) -> Holding {
        let engines = self.engines.get(&instance).into_iter().flatten();
        let mut answers = engines.filter_map(|engine| self.answers.get(engine));
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

fn noted(book: &Book) -> impl Iterator<Item = (InstanceId, Vec<Endpoint>)> {
    let directory: &Path = &book.directory;
    let engines =
        move |id, entry: &Entry| noted_engines(directory, id, &entry.intent.ways).collect();
    book.open_entries().map(move |(id, entry)| (id, engines(id, entry)))
}

fn ask(endpoints: &HashSet<Endpoint>) -> HashMap<Endpoint, Answer> {
    if endpoints.is_empty() {
        return HashMap::new();
    }
    let asked = block_on(ask_all(endpoints.clone()));
    asked.unwrap_or_else(|error| {
        let unasked = |endpoint: &Endpoint| {
            let (name, reason) = (endpoint.to_string(), error.to_string());
            (endpoint.clone(), Err(Unreachable { endpoint: name, reason }))
        };
        endpoints.iter().map(unasked).collect()
    })
}

async fn ask_all(endpoints: HashSet<Endpoint>) -> HashMap<Endpoint, Answer> {
    let mut questions = JoinSet::new();
    for endpoint in endpoints {
        questions.spawn(async move {
            let answer = list(&endpoint, ANSWER_LIMIT).await;
            (endpoint, answer)
        });
    }
    questions.join_all().await.into_iter().collect()
}
