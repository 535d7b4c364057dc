//! Starts that were begun to learn what servers offer.
//!
//! The gateway owns them: a client that leaves or stops waiting changes nothing, and its successor finds the result in
//! the catalog. There is one at a time for each server and profile, however many clients ask.

use std::collections::HashMap;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use ostler::keeper::{AcquireError, Lease};
use tokio::sync::Notify;

use crate::catalog::{Name, Subject};
use crate::mutex::lock;
use crate::variant;

/// Failures that are remembered at most. With more all of them are forgotten, and the servers tried again.
const MOST_FAILURES: usize = 1024;

/// The listings of all servers.
#[derive(Default)]
pub(crate) struct Listings {
    attempts: Mutex<HashMap<Subjects, Attempt>>,
    /// Those that no task carries out yet.
    begun: Mutex<Vec<Begun>>,
    wake: Notify,
}

/// One server as it shows itself to one profile.
type Subjects = (Subject, Arc<str>);

/// The state of a listing; one that has succeeded is forgotten, because the catalog has its result.
#[derive(Clone, Debug)]
pub(crate) enum Attempt {
    /// It is under way.
    Running {
        /// Whether no earlier one has failed, so that it is worth waiting for.
        is_first: bool,
    },
    /// The last one has failed.
    Failed(StartFailure),
}

/// Why a server could not be listed.
#[derive(Clone, Debug)]
pub(crate) struct StartFailure {
    /// For programs: the reason of the JSON-RPC error.
    pub(crate) reason: &'static str,
    /// For people.
    pub(crate) text: String,
}

/// A listing that waits for its instance.
pub(crate) struct Begun {
    pub(crate) name: Name,
    pub(crate) lease: Pin<Box<dyn Future<Output = Result<Lease, AcquireError>> + Send>>,
}

impl From<&AcquireError> for StartFailure {
    fn from(error: &AcquireError) -> Self {
        let reason = match error {
            AcquireError::BackingOff { .. } | AcquireError::Failed(_) => "upstream_failed",
            AcquireError::UnknownServer(_) => "unknown_server",
            _ => "unavailable",
        };
        Self { reason, text: variant::readable(&error.to_string()).into_owned() }
    }
}

impl Listings {
    /// The state of a listing, unless it was never begun or has succeeded.
    pub(crate) fn attempt(&self, name: &Name) -> Option<Attempt> {
        lock(&self.attempts).get(&subjects(name)).cloned()
    }

    /// Begins a listing unless one is under way. `acquire` asks for the instance.
    pub(crate) fn begin<F>(&self, name: Name, acquire: impl FnOnce() -> F)
    where
        F: Future<Output = Result<Lease, AcquireError>> + Send + 'static,
    {
        let mut attempts = lock(&self.attempts);
        let subjects = subjects(&name);
        let is_first = match attempts.get(&subjects) {
            Some(Attempt::Running { .. }) => return,
            Some(Attempt::Failed(_)) => false,
            None => true,
        };
        attempts.insert(subjects, Attempt::Running { is_first });
        drop(attempts);
        let lease = Box::pin(acquire());
        lock(&self.begun).push(Begun { name, lease });
        self.wake.notify_one();
    }

    /// Waits for listings that have to be carried out.
    pub(crate) async fn begun(&self) -> Vec<Begun> {
        loop {
            let begun = std::mem::take(&mut *lock(&self.begun));
            if !begun.is_empty() {
                return begun;
            }
            self.wake.notified().await;
        }
    }

    /// A listing is over.
    pub(crate) fn finish(&self, name: &Name, result: Result<(), StartFailure>) {
        let mut attempts = lock(&self.attempts);
        attempts.remove(&subjects(name));
        if let Err(failure) = result {
            if attempts.len() >= MOST_FAILURES {
                attempts.retain(|_, attempt| matches!(attempt, Attempt::Running { .. }));
            }
            attempts.insert(subjects(name), Attempt::Failed(failure));
        }
    }
}

fn subjects(name: &Name) -> Subjects {
    (name.subject.clone(), Arc::clone(&name.view.profile))
}

impl fmt::Debug for Listings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listings").field("attempts", &self.attempts).finish_non_exhaustive()
    }
}
