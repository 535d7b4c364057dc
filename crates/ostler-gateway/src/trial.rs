//! Trial of one server: a start outside of the gateway, step by step.
//!
//! A trial has a keeper of its own, with the fence, the environment and the handshake that the gateway would use. So it
//! meets what a first call would meet, and never touches an instance of the gateway. [`Trial::run`] takes the steps up to
//! the first failure, and may be dropped at any moment; [`Trial::end`] stops the server and says what is left.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use ostler::keeper::{
    AcquireError, CallError, Caps, Cause, Config, Demand, Ending, Event, Keeper, Lease, NotStarted,
    Scope, Server, What,
};
use ostler::{Level, Outcome, Owner, Refusal};
use serde::Serialize;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};

use crate::catalog::Catalog;
use crate::failure::Failure;
use crate::protocol::lists::items;
use crate::protocol::message;
use crate::router::{ListError, attended, whole_list};
use crate::server_set::AvailableServer;
use crate::tools::Tools;
use crate::upstream::{Upstream, Upstreams};

/// List of the tools.
const TOOLS: &str = "tools/list";
/// List of a server without tools.
const NO_TOOLS: Bytes = Bytes::from_static(br#"{"tools":[]}"#);
/// Longest name and version of a server that are shown, in characters.
const LONGEST_NAME: usize = 64;

/// A step of a trial, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Its entry is found and resolved for this environment.
    Configuration,
    /// Its program is found. A remote server has no such step.
    Program,
    /// Its program runs. A remote server has no such step.
    Start,
    /// It answers the handshake.
    Handshake,
    /// It lists its tools.
    Tools,
    /// It is stopped, and nothing is left.
    Stop,
}

/// Result of a step that succeeded.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Success {
    /// Of [`Step::Configuration`].
    Configured {
        /// The configuration file.
        config: PathBuf,
    },
    /// Of [`Step::Program`].
    Found {
        /// The program file.
        program: PathBuf,
    },
    /// Of [`Step::Start`].
    Started {
        /// Its process, unless it has ended already.
        pid: Option<i32>,
        /// Its containment level.
        containment: Option<Level>,
    },
    /// Of [`Step::Handshake`].
    Greeted {
        /// Protocol version that the server chose.
        protocol: String,
        /// Name and version of the server, if it told them.
        name: Option<String>,
        /// Time from the start to the end of the handshake.
        seconds: f64,
    },
    /// Of [`Step::Tools`].
    Listed {
        /// Number of tools that clients see.
        tools: usize,
        /// Number of tools that the configuration hides.
        hidden: usize,
    },
    /// Of [`Step::Stop`].
    Stopped {
        /// Why nothing is left.
        proof: String,
    },
}

impl Success {
    /// The step that succeeded.
    pub fn step(&self) -> Step {
        match self {
            Self::Configured { .. } => Step::Configuration,
            Self::Found { .. } => Step::Program,
            Self::Started { .. } => Step::Start,
            Self::Greeted { .. } => Step::Handshake,
            Self::Listed { .. } => Step::Tools,
            Self::Stopped { .. } => Step::Stop,
        }
    }
}

/// The first step that failed, and why.
#[derive(Clone, Debug)]
pub struct TrialError {
    /// The step.
    pub step: Step,
    /// The failure.
    pub failure: Failure,
}

/// Trial of one server.
#[derive(Debug)]
pub struct Trial {
    keeper: Keeper,
    upstreams: Arc<Upstreams>,
    /// Session that holds the lease.
    session: Scope,
    events: Receiver<Event>,
    server: Server,
    tools: Tools,
    /// How its instance ended; `None` while it runs, and if nothing was started.
    outcome: Option<Outcome>,
}

impl Trial {
    /// Prepares a trial on the current tokio runtime. Starts nothing yet.
    pub fn new(owner: Owner, available: AvailableServer) -> Self {
        let AvailableServer { server, tools, .. } = available;
        let upstreams = Arc::new(Upstreams::new(Catalog::new(None)));
        let attended = attended((&upstreams, None), server.clone());
        let servers = BTreeMap::from([(server.name().to_owned(), attended)]);
        let keeper = Keeper::new(owner, Config { servers, caps: Caps::default() });
        let (session, events) = (keeper.session(), keeper.events());
        Self { keeper, upstreams, session, events, server, tools, outcome: None }
    }

    /// Takes the steps from [`Step::Program`] to [`Step::Tools`], and tells each success.
    pub async fn run(&mut self, mut tell: impl FnMut(Success)) -> Result<(), TrialError> {
        let began = Instant::now();
        let lease = self.start(&mut tell).await?;
        let seconds = began.elapsed().as_secs_f64();
        let upstream = self.upstreams.upstream(lease.instance());
        let upstream =
            upstream.ok_or_else(|| self.ended(Step::Tools, lease.ending().as_deref()))?;
        tell(greeted(&upstream, seconds));
        let list =
            if upstream.can(&["tools"]) { self.list(&upstream, &lease).await? } else { NO_TOOLS };
        let all = items(&list, "tools").len();
        let tools = items(&self.tools.filter(TOOLS, list), "tools").len();
        tell(Success::Listed { tools, hidden: all - tools });
        Ok(())
    }

    /// The list of its tools.
    async fn list(&self, upstream: &Upstream, lease: &Lease) -> Result<Bytes, TrialError> {
        let step = Step::Tools;
        match whole_list(upstream, TOOLS).await {
            Ok((list, _)) => Ok(list),
            Err(ListError::Call(CallError::Ended(ending))) => Err(self.ended(step, Some(&ending))),
            // The keeper reports the end of the instance a moment later.
            Err(ListError::Call(CallError::Closed)) => {
                lease.left().await;
                Err(self.ended(step, lease.ending().as_deref()))
            }
            Err(error) => Err(self.failed(step, &error.to_string())),
        }
    }

    /// Stops the server and waits until nothing is left, or until it is known what is. `None` if nothing was started.
    pub async fn end(mut self) -> Option<Outcome> {
        self.keeper.shutdown().await;
        loop {
            match self.events.try_recv() {
                Ok(event) => self.outcome = outcome(&event).or(self.outcome),
                Err(TryRecvError::Lagged(_)) => {}
                Err(TryRecvError::Empty | TryRecvError::Closed) => return self.outcome,
            }
        }
    }

    /// Starts an instance, and waits until it is ready.
    async fn start(&mut self, tell: &mut impl FnMut(Success)) -> Result<Lease, TrialError> {
        let demand = Demand::default();
        let acquired = self.session.acquire_with(self.server.name(), &demand);
        tokio::pin!(acquired);
        let mut step = if self.server.spec().is_some() { Step::Start } else { Step::Handshake };
        let acquired = loop {
            tokio::select! {
                biased;
                event = self.events.recv() => match event {
                    Ok(event) => {
                        self.outcome = outcome(&event).or(self.outcome.take());
                        if self.tell_start(&event, tell) {
                            step = Step::Handshake;
                        }
                    }
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => break acquired.await,
                },
                acquired = &mut acquired => break acquired,
            }
        };
        acquired.map_err(|error| match error {
            AcquireError::Failed(ending) => {
                let step = failed_step(&ending.cause, step);
                if step == Step::Start {
                    self.found().into_iter().for_each(tell);
                }
                self.ended(step, Some(&ending))
            }
            error => self.failed(step, &error.to_string()),
        })
    }

    /// Tells that the server runs, if this event says so.
    fn tell_start(&self, event: &Event, tell: &mut impl FnMut(Success)) -> bool {
        let What::Running { level, .. } = &event.what else { return false };
        let views = self.keeper.snapshot().instances;
        let mut places = views.iter().filter_map(|view| view.whereabouts.as_ref());
        let pid = places.find_map(|place| Some(place.server()?.pid));
        let started = Success::Started { pid, containment: *level };
        self.found().into_iter().chain([started]).for_each(tell);
        true
    }

    /// The program file of a local server.
    fn found(&self) -> Option<Success> {
        let program = self.server.spec()?.find_program()?;
        Some(Success::Found { program })
    }

    fn ended(&self, step: Step, ending: Option<&Ending>) -> TrialError {
        match ending {
            Some(ending) => TrialError { step, failure: Failure::from(ending) },
            None => self.failed(step, "it has ended"),
        }
    }

    fn failed(&self, step: Step, cause: &str) -> TrialError {
        TrialError { step, failure: Failure::without_end(&self.server, cause) }
    }
}

fn greeted(upstream: &Upstream, seconds: f64) -> Success {
    let result = String::from_utf8_lossy(upstream.initialize());
    let text = |path: &[&str]| message::text_at(&result, path);
    let words = [text(&["serverInfo", "name"]), text(&["serverInfo", "version"])];
    let words: Vec<String> = words.into_iter().flatten().collect();
    let name = (!words.is_empty()).then(|| words.join(" ").chars().take(LONGEST_NAME).collect());
    let protocol = text(&["protocolVersion"]).unwrap_or_default();
    Success::Greeted { protocol, name, seconds }
}

/// The step that failed for this cause; `step` was under way.
fn failed_step(cause: &Cause, step: Step) -> Step {
    let Cause::NotStarted(NotStarted::Refused { refusal, .. }) = cause else { return step };
    match refusal {
        Refusal::NotFound { .. } | Refusal::NotExecutable { .. } => Step::Program,
        _ => step,
    }
}

/// How the instance has ended, if this event says so.
fn outcome(event: &Event) -> Option<Outcome> {
    match &event.what {
        What::Gone { proof, .. } => proof.clone().map(Outcome::Gone),
        What::Unverified { residue, .. } => Some(Outcome::Unverified(residue.clone())),
        _ => None,
    }
}
