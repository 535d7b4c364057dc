//! Listings: starts of servers to learn what they offer.
//!
//! The gateway owns listings: one goes on if its client leaves or stops waiting, and the next client finds the result
//! in the catalog. There is at most one at a time for each server and profile, however many clients ask.

use std::collections::HashMap;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use ostler::keeper::{AcquireError, Ending, Lease};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::catalog::{Name, Subject};
use crate::failure;
use crate::mutex::lock;
use crate::server_set::Unavailable;
use crate::variant;

/// Most failures that are remembered. With more, all are forgotten and their servers tried again.
const MOST_FAILURES: usize = 1024;

/// Listings of all servers.
#[derive(Default)]
pub(crate) struct Listings {
    attempts: Mutex<HashMap<Subjects, Attempt>>,
    /// Listings that no task carries out yet.
    begun: Mutex<Vec<Begun>>,
    wake: Notify,
}

/// Key of a listing: a server of a principal, and the profile of the clients.
type Subjects = (Subject, Arc<str>);

/// State of a listing. A successful one is removed, because the catalog has its result.
#[derive(Clone, Debug)]
pub(crate) enum Attempt {
    /// The listing is under way.
    Running {
        /// Whether no earlier listing has failed, so that clients' lists wait for this one.
        is_first: bool,
    },
    /// The last listing has failed.
    Failed(StartFailure),
}

/// Reason why a server could not be listed.
#[derive(Clone, Debug)]
pub(crate) struct StartFailure {
    /// Text for people.
    pub(crate) text: String,
    /// Details for programs: the reason, and how the server failed if it was started.
    pub(crate) details: Value,
}

/// A listing that waits for its lease.
pub(crate) struct Begun {
    pub(crate) name: Name,
    pub(crate) lease: Pin<Box<dyn Future<Output = Result<Lease, AcquireError>> + Send>>,
}

impl StartFailure {
    pub(crate) fn new(reason: &'static str, text: String) -> Self {
        Self { text, details: json!({ "reason": reason }) }
    }

    /// The client can't use the server.
    pub(crate) fn unavailable(server: &str, why: &Unavailable) -> Self {
        let (text, details) =
            failure::explain_unavailable(server, &why.reason, why.advice.as_deref());
        Self { text, details }
    }

    /// The server was started and has failed.
    pub(crate) fn ended(ending: &Ending) -> Self {
        let (text, details) = failure::explain(ending, "upstream_failed");
        Self { text, details }
    }
}

impl From<&AcquireError> for StartFailure {
    fn from(error: &AcquireError) -> Self {
        let reason = match error {
            AcquireError::Failed(ending) => return Self::ended(ending),
            AcquireError::BackingOff { failures, wait, last, .. } => {
                let mut failure = Self::ended(last);
                let wait = wait.as_secs_f64();
                let next = format!("\n  failures in a row: {failures}, next try in {wait:.1} s");
                failure.text.push_str(&next);
                return failure;
            }
            AcquireError::UnknownServer(_) => "unknown_server",
            _ => "unavailable",
        };
        Self::new(reason, variant::readable(&error.to_string()).into_owned())
    }
}

impl Listings {
    /// State of a listing; `None` if it was never begun or has succeeded.
    pub(crate) fn attempt(&self, name: &Name) -> Option<Attempt> {
        lock(&self.attempts).get(&subjects(name)).cloned()
    }

    /// Begins a listing unless one is under way. `acquire` requests the lease.
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

    /// Stores the result of a listing.
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
