//! Which containers there are now, as their engines say.
//!
//! Only engines are asked that a note beside a ledger names, each once and all at the same time: one
//! that hangs takes the others no time, and nobody more than [`ANSWER_LIMIT`].

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use tokio::task::JoinSet;

use crate::door::remains::noted_engine;
use crate::engine::clear::{block_on, list};
use crate::engine::{ContainerView, Endpoint, Unreachable};
use crate::id::InstanceId;
use crate::ledger::Book;

/// For an engine to say what it has. Somebody is waiting for it at a terminal.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);

type Answer = Result<Vec<ContainerView>, Unreachable>;

/// What all engines said.
#[derive(Clone, Debug, Default)]
pub struct Census {
    /// The engine of each instance that may have containers.
    engines: BTreeMap<InstanceId, Endpoint>,
    answers: HashMap<Endpoint, Answer>,
}

/// What an instance has in its engine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Holding {
    /// Its containers, as far as the engine says.
    pub containers: Vec<ContainerView>,
    /// Why the engine does not say. There may be more containers then.
    pub unreachable: Option<Unreachable>,
}

impl Census {
    /// Asks all engines in which instances of these ledgers may have containers.
    pub fn take<'b>(books: impl IntoIterator<Item = &'b Book>) -> Self {
        let engines: BTreeMap<InstanceId, Endpoint> = books.into_iter().flat_map(noted).collect();
        let mut distinct: Vec<Endpoint> = Vec::new();
        for endpoint in engines.values() {
            if !distinct.contains(endpoint) {
                distinct.push(endpoint.clone());
            }
        }
        Self { engines, answers: ask(distinct) }
    }

    /// What this instance has.
    pub fn of(&self, instance: InstanceId) -> Holding {
        let answer = self.engines.get(&instance).and_then(|engine| self.answers.get(engine));
        match answer {
            Some(Ok(all)) => {
                let own = all.iter().filter(|one| one.instance == instance);
                Holding { containers: own.cloned().collect(), unreachable: None }
            }
            Some(Err(why)) => Holding { containers: Vec::new(), unreachable: Some(why.clone()) },
            None => Holding::default(),
        }
    }

    /// All containers that were told of, also of instances that no ledger knows.
    pub fn containers(&self) -> impl Iterator<Item = &ContainerView> {
        self.answers.values().flatten().flatten()
    }

    /// The engines that did not say what they have.
    pub fn unreachable(&self) -> impl Iterator<Item = &Unreachable> {
        self.answers.values().filter_map(|answer| answer.as_ref().err())
    }
}

fn noted(book: &Book) -> impl Iterator<Item = (InstanceId, Endpoint)> {
    let directory: &Path = &book.directory;
    book.open_entries().filter_map(move |(id, entry)| {
        let endpoint = noted_engine(directory, id, entry.intent.engine.as_ref()?)?;
        Some((id, endpoint))
    })
}

fn ask(endpoints: Vec<Endpoint>) -> HashMap<Endpoint, Answer> {
    if endpoints.is_empty() {
        return HashMap::new();
    }
    let asked = block_on(ask_all(endpoints.clone()));
    asked.unwrap_or_else(|error| {
        let unasked = |endpoint: Endpoint| {
            let (name, reason) = (endpoint.to_string(), error.to_string());
            (endpoint, Err(Unreachable { endpoint: name, reason }))
        };
        endpoints.into_iter().map(unasked).collect()
    })
}

async fn ask_all(endpoints: Vec<Endpoint>) -> HashMap<Endpoint, Answer> {
    let mut questions = JoinSet::new();
    for endpoint in endpoints {
        questions.spawn(async move {
            let answer = list(&endpoint, ANSWER_LIMIT).await;
            (endpoint, answer)
        });
    }
    questions.join_all().await.into_iter().collect()
}
