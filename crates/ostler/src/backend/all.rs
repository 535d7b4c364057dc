//! The set of backends that a program knows, and the sweep over all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::{Backend, Evidence, Part, Processes, Remotes, StartOrder, Started, Traces};
use crate::fence::StartError;
use crate::id::InstanceId;
use crate::ledger::{Book, Entry};
use crate::outcome::{Outcome, Residue};
use crate::places::Places;
use crate::snapshot::{State, View};
use crate::sweep::{DeadOwner, books, dead_owners};

/// Backends by name. The default set has processes and remote servers.
///
/// A ledger entry goes to the backend that it names. Entries of an unknown backend are shown but not ended: only
/// their own backend can tell what is left of them.
#[derive(Clone)]
pub struct Backends(BTreeMap<String, Arc<dyn Backend>>);

impl Default for Backends {
    fn default() -> Self {
        let none = Self(BTreeMap::new());
        none.with(Arc::new(Processes::default())).with(Arc::new(Remotes))
    }
}

impl Backends {
    /// Adds a backend, or replaces the one with the same name.
    #[must_use]
    pub fn with(mut self, backend: Arc<dyn Backend>) -> Self {
        self.0.insert(backend.name().to_owned(), backend);
        self
    }

    /// The backend with this name.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Backend>> {
        self.0.get(name)
    }

    /// Starts an instance on the backend that its target names.
    pub(crate) async fn start(&self, order: StartOrder) -> Result<Started, StartError> {
        let name = order.target.backend();
        let backend = self.get(name).ok_or_else(|| StartError::NoBackend(name.to_owned()))?;
        backend.start(order).await
    }

    /// All unsettled instances on record, oldest first. Ends nothing.
    pub async fn snapshot(&self, places: &Places) -> Vec<View> {
        let books = books(places);
        let mut views = Vec::new();
        for name in names(&books) {
            let own: Vec<Book> = books.iter().map(|book| book.open_of(&name)).collect();
            match self.get(&name) {
                Some(backend) => views.extend(backend.describe(own).await),
                None => views.extend(own.iter().flat_map(as_on_record)),
            }
        }
        views.sort_by_key(|view| view.started_at);
        views
    }

    /// What is left of each unsettled instance of a dead owner. Ends nothing.
    pub async fn list(&self, dead: &DeadOwner) -> BTreeMap<InstanceId, Evidence> {
        let book = dead.book();
        let mut found = BTreeMap::new();
        for name in names([book]) {
            let own = book.open_of(&name);
            match self.get(&name) {
                Some(backend) => found.extend(backend.list(own).await),
                None => found.extend(own.entries.into_values().map(|entry| unknown(&name, entry))),
            }
        }
        found
    }

    /// Sweeps a dead owner: ends what is left on each backend, within `limit` each if possible, and settles the ledger.
    pub async fn settle(
        &self,
        mut dead: DeadOwner,
        limit: Duration,
    ) -> BTreeMap<InstanceId, Outcome> {
        let mut outcomes = BTreeMap::new();
        for name in names([dead.book()]) {
            let own = dead.book().open_of(&name);
            let Some(backend) = self.get(&name) else {
                let left = |id| (id, Outcome::Unverified(Residue::Other(not_known(&name))));
                outcomes.extend(own.entries.into_keys().map(left));
                continue;
            };
            let ended = backend.end(own, limit).await;
            for (id, outcome) in &ended {
                dead.note(*id, outcome);
            }
            outcomes.extend(ended);
        }
        dead.leave();
        outcomes
    }

    /// Sweeps all dead owners.
    pub async fn sweep(&self, places: &Places, limit: Duration) {
        for dead in dead_owners(places) {
            self.settle(dead, limit).await;
        }
    }

    /// Asks an instance of another living owner to end. Returns whether the instance still has a guardian to ask.
    pub fn ask(&self, entry: &Entry) -> bool {
        self.get(&entry.intent.backend).is_some_and(|backend| backend.ask(entry))
    }

    /// Asks the backend of an instance for the part of it that people call `what`.
    pub fn part(&self, entry: &Entry, what: &str) -> Option<Part> {
        self.get(&entry.intent.backend)?.part(entry, what)
    }
}

/// Names of the backends of all open entries.
fn names<'b>(books: impl IntoIterator<Item = &'b Book>) -> BTreeSet<String> {
    let entries = books.into_iter().flat_map(Book::open_entries);
    entries.map(|(_, entry)| entry.intent.backend.clone()).collect()
}

fn as_on_record(book: &Book) -> impl Iterator<Item = View> {
    let lives = book.owner.process.is_alive();
    book.open_entries().map(move |(_, entry)| {
        let state = match (&entry.start, &entry.end) {
            _ if !lives => State::Orphaned,
            (_, Some(_)) => State::Unverified,
            (None, None) => State::Starting,
            (Some(_), None) => State::Running,
        };
        View::of(entry, &book.owner, state)
    })
}

fn unknown(backend: &str, entry: Entry) -> (InstanceId, Evidence) {
    let traces = Traces::described(not_known(backend));
    (entry.intent.instance, Evidence { entry, traces })
}

fn not_known(backend: &str) -> String {
    format!("unknown: this program does not have its backend '{backend}'")
}

impl fmt::Debug for Backends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
