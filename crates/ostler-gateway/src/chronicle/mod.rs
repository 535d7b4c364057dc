//! What happened lately, for operators who ask later.

mod lineage;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::UNIX_EPOCH;

use ostler::keeper::{Event, Keeper, What};
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use self::lineage::Lineage;
use crate::gateway::lock;
use crate::variant;

/// How much is remembered.
const LATELY: usize = 1000;

/// Something that the keeper did, in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Happening {
    /// When, in milliseconds since 1970.
    pub at: u64,
    /// What: `queued`, `starting`, `running`, `reached`, `ready`, `draining`, `stopping`, `gone`, `unverified`, `paid`,
    /// `backing_off`, `replaced` or `missed`.
    pub event: String,
    /// The server, if it is about one.
    pub server: Option<String>,
    /// The number of the instance within its gateway, if it is about one.
    pub number: Option<u64>,
    /// On whose behalf, why, or how it ended.
    pub detail: String,
}

/// What happened lately.
#[derive(Debug)]
pub(crate) struct Chronicle {
    pages: Mutex<Pages>,
    news: broadcast::Sender<Arc<Happening>>,
}

#[derive(Debug, Default)]
struct Pages {
    lately: VecDeque<Arc<Happening>>,
    lineage: Lineage,
}

impl Default for Chronicle {
    fn default() -> Self {
        Self { pages: Mutex::default(), news: broadcast::Sender::new(LATELY) }
    }
}

impl Chronicle {
    /// Writes down what happens, for as long as the keeper lives.
    pub(crate) async fn write(&self, keeper: &Keeper) {
        let mut events = keeper.events();
        loop {
            match events.recv().await {
                Ok(event) => self.note(&event),
                Err(RecvError::Lagged(missed)) => {
                    let detail = format!("{missed} events");
                    self.add(Happening::new(0, "missed", None, None, detail));
                    let there = keeper.snapshot().instances;
                    let there = there.iter().map(|view| view.number).collect();
                    lock(&self.pages).lineage.retain(&there);
                }
                Err(RecvError::Closed) => return,
            }
        }
    }

    /// What is remembered, and what comes next: nothing in between is lost.
    pub(crate) fn read(&self) -> (Vec<Arc<Happening>>, broadcast::Receiver<Arc<Happening>>) {
        let pages = lock(&self.pages);
        (pages.lately.iter().cloned().collect(), self.news.subscribe())
    }

    /// How many instances this one has replaced that failed or were stopped.
    pub(crate) fn restarts(&self, number: u64) -> u64 {
        lock(&self.pages).lineage.restarts(number)
    }

    fn note(&self, event: &Event) {
        let at = event.at.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let at = u64::try_from(at).unwrap_or(u64::MAX);
        let number = (event.number != 0).then_some(event.number);
        let server = self.server_of(event);
        let (name, detail) = describe(&event.what);
        self.add(Happening::new(at, name, server, number, detail));
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

    fn add(&self, happening: Happening) {
        let happening = Arc::new(happening);
        let mut pages = lock(&self.pages);
        if pages.lately.len() == LATELY {
            pages.lately.pop_front();
        }
        pages.lately.push_back(Arc::clone(&happening));
        // Nobody has to listen.
        let _ = self.news.send(happening);
    }
}

impl Happening {
    fn new(
        at: u64,
        event: &str,
        server: Option<String>,
        number: Option<u64>,
        detail: String,
    ) -> Self {
        Self { at, event: event.to_owned(), server, number, detail }
    }
}

fn describe(what: &What) -> (&'static str, String) {
    let (name, detail) = match what {
        What::Queued { by, .. } => ("queued", format!("for {by}")),
        What::Starting { key, by } => ("starting", format!("for {by}, shared by {}", key.whose)),
        What::Running { instance } => ("running", instance.to_string()),
        What::Reached { place } => ("reached", place.clone()),
        What::Ready { after } => ("ready", format!("after {} ms", after.as_millis())),
        What::Draining(cause) => ("draining", cause.to_string()),
        What::Stopping(cause) => ("stopping", cause.to_string()),
        What::Gone { ending, proof } => {
            let proof = proof.map_or("it never ran".into(), |proof| proof.to_string());
            ("gone", format!("{}: {proof}", ending.cause))
        }
        What::Unverified { ending, residue } => {
            ("unverified", format!("{}: {residue}", ending.cause))
        }
        What::Paid => ("paid", "what it left is gone".into()),
        What::BackingOff { principal, failures, wait, .. } => {
            let of = principal.name().map(|name| format!(" of {name}")).unwrap_or_default();
            let wait = wait.as_millis();
            ("backing_off", format!("{failures} failures{of}, next try in {wait} ms"))
        }
        What::Replaced(_) => ("replaced", "another configuration is in force".into()),
        _ => ("other", String::new()),
    };
    (name, variant::readable(&detail).into_owned())
}
