//! Event log: recent events of the gateway, for `ostler events` and for restart counts.
//!
//! `EventLog::write` follows the keeper's events for as long as the keeper exists, turns each into a `LoggedEvent` and
//! appends it to a ring of the last `LATELY` events; the gateway adds events of its own with `add`. `read` returns the
//! ring together with a subscription, without a gap between the two. The log also keeps the last failure of each
//! server, and `Lineage` counts how often an instance was restarted.
//!
//! If the log falls behind the keeper, it adds a `missed` event and drops instances whose end it may have missed.

mod lineage;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use ostler::keeper::{Ending, Event, Keeper, What};
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use self::lineage::Lineage;
use crate::failure::Failure;
use crate::mutex::lock;
use crate::variant;

/// Number of events that are kept.
const LATELY: usize = 1000;

/// An event of the gateway or of a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoggedEvent {
    /// Time in milliseconds since 1970.
    pub at: u64,
    /// Kind: `queued`, `starting`, `running`, `reached`, `ready`, `draining`, `stopping`, `gone`, `unverified`, `paid`,
    /// `backing_off`, `replaced`, `connected`, `disconnected` or `missed`.
    pub event: String,
    /// Name of the server, if the event concerns one.
    pub server: Option<String>,
    /// Number of the instance within its gateway, if the event concerns one.
    pub number: Option<u64>,
    /// Explanation: for which client, why, or how the instance ended.
    pub detail: String,
    /// Failure of the instance, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

/// The event log of a gateway.
#[derive(Debug)]
pub(crate) struct EventLog {
    pages: Mutex<Pages>,
    news: broadcast::Sender<Arc<LoggedEvent>>,
}

#[derive(Debug, Default)]
struct Pages {
    lately: VecDeque<Arc<LoggedEvent>>,
    lineage: Lineage,
    /// Last failure of each server.
    failures: BTreeMap<String, Arc<LoggedEvent>>,
}

impl Default for EventLog {
    fn default() -> Self {
        Self { pages: Mutex::default(), news: broadcast::Sender::new(LATELY) }
    }
}

impl EventLog {
    /// Logs the keeper's events until the keeper is dropped.
    pub(crate) async fn write(&self, keeper: &Keeper) {
        let mut events = keeper.events();
        loop {
            match events.recv().await {
                Ok(event) => self.note(&event),
                Err(RecvError::Lagged(missed)) => {
                    self.add(LoggedEvent::now("missed", None, format!("{missed} events")));
                    let there = keeper.snapshot().instances;
                    let there = there.iter().map(|view| view.number).collect();
                    lock(&self.pages).lineage.retain(&there);
                }
                Err(RecvError::Closed) => return,
            }
        }
    }

    /// Returns the kept events and a subscription to all later ones, without a gap.
    pub(crate) fn read(&self) -> (Vec<Arc<LoggedEvent>>, broadcast::Receiver<Arc<LoggedEvent>>) {
        let pages = lock(&self.pages);
        (pages.lately.iter().cloned().collect(), self.news.subscribe())
    }

    /// Number of failed or stopped instances that this instance replaced.
    pub(crate) fn restarts(&self, number: u64) -> u64 {
        lock(&self.pages).lineage.restarts(number)
    }

    /// Last failure of a server.
    pub(crate) fn last_failure(&self, server: &str) -> Option<Arc<LoggedEvent>> {
        lock(&self.pages).failures.get(server).cloned()
    }

    fn note(&self, event: &Event) {
        let (name, detail) = describe(&event.what);
        let failure = match &event.what {
            What::Gone { ending, .. } | What::Unverified { ending, .. } => Failure::of(ending),
            _ => None,
        };
        self.add(LoggedEvent {
            at: millis(event.at),
            event: name.to_owned(),
            server: self.server_of(event),
            number: (event.number != 0).then_some(event.number),
            detail,
            failure,
        });
    }

    fn server_of(&self, event: &Event) -> Option<String> {
        let mut pages = lock(&self.pages);
        match &event.what {
            What::Starting { key, .. } => pages.lineage.begin(event.number, key.clone()),
            What::Draining(cause) | What::Stopping(cause) => {
                pages.lineage.leave(event.number, cause);
            }
            _ => {}
        }
        let id = match &event.what {
            What::Queued { key, .. } => Some(Arc::clone(&key.server)),
            What::BackingOff { server, .. } => Some(Arc::clone(server)),
            _ => pages.lineage.key(event.number).map(|key| Arc::clone(&key.server)),
        };
        if matches!(event.what, What::Gone { .. } | What::Paid) {
            pages.lineage.end(event.number);
        }
        id.map(|id| variant::name(&id).to_owned())
    }

    pub(crate) fn add(&self, event: LoggedEvent) {
        let event = Arc::new(event);
        let mut pages = lock(&self.pages);
        if pages.lately.len() == LATELY {
            pages.lately.pop_front();
        }
        pages.lately.push_back(Arc::clone(&event));
        pages.keep_failure(&event);
        // Sending fails if there is no subscriber.
        let _ = self.news.send(event);
    }
}

impl Pages {
    fn keep_failure(&mut self, event: &Arc<LoggedEvent>) {
        let (Some(server), Some(_)) = (&event.server, &event.failure) else { return };
        self.failures.insert(server.clone(), Arc::clone(event));
        // Bounds the map: it also holds names of servers that are no longer configured.
        if self.failures.len() > LATELY {
            let oldest = self.failures.iter().min_by_key(|(_, failure)| failure.at);
            let oldest = oldest.map(|(server, _)| server.clone());
            oldest.map(|server| self.failures.remove(&server));
        }
    }
}

impl LoggedEvent {
    /// An event that happens now and concerns no instance.
    pub(crate) fn now(event: &str, server: Option<String>, detail: String) -> Self {
        let at = millis(SystemTime::now());
        Self { at, event: event.to_owned(), server, number: None, detail, failure: None }
    }
}

/// Converts a time to milliseconds since 1970.
pub(crate) fn millis(at: SystemTime) -> u64 {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn describe(what: &What) -> (&'static str, String) {
    let (name, detail) = match what {
        What::Queued { by, .. } => ("queued", format!("for {by}")),
        What::Starting { key, by } => ("starting", format!("for {by}, shared by {}", key.whose)),
        What::Running { instance, .. } => ("running", instance.to_string()),
        What::Reached { place } => ("reached", place.clone()),
        What::Ready { after } => ("ready", format!("after {} ms", after.as_millis())),
        What::Draining(cause) => ("draining", cause.to_string()),
        What::Stopping(cause) => ("stopping", cause.to_string()),
        What::Gone { ending, proof } => {
            let proof = proof.as_ref().map_or("it never ran".into(), ToString::to_string);
            ("gone", format!("{}: {proof}", cause_of(ending)))
        }
        What::Unverified { ending, residue } => {
            ("unverified", format!("{}: {residue}", cause_of(ending)))
        }
        What::Paid => ("paid", "what it left is gone".into()),
        What::BackingOff { principal, failures, wait, .. } => {
            let of = principal.name().map(|name| format!(" of {name}")).unwrap_or_default();
            let wait = wait.as_millis();
            ("backing_off", format!("failures{of} in a row: {failures}, next try in {wait} ms"))
        }
        What::Replaced(_) => ("replaced", "a new configuration was applied".into()),
        _ => ("other", String::new()),
    };
    (name, variant::readable(&detail).into_owned())
}

/// The cause of an instance's end, with its exit status if known.
fn cause_of(ending: &Ending) -> String {
    match ending.status {
        Some(status) => format!("{} ({status})", ending.cause),
        None => ending.cause.to_string(),
    }
}
