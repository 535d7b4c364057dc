//! The simulated world: all instances, and the rules that watch the keeper.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::Waker;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::backend::now;
use super::behaviour::{Behaviour, Behaviours, Greeting};
use super::instance::{GuardianEvent, SimInstance};
use super::rules::Rules;
use crate::frame::{Frame, Kind};
use crate::keeper::dice::Dice;
use crate::keeper::shell::Shell;
use crate::keeper::{Config, Keeper};

/// Most steps at one moment; more means that the keeper loops.
const MOST_AT_ONCE: u32 = 20_000;

/// A deliberate defect of the world, which the rules must detect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    /// A dropped instance is not stopped.
    Leaks,
    /// An instance is reported as gone while it lives.
    Lies,
    /// Each start creates two instances.
    Twins,
}

#[derive(Debug)]
pub(super) struct World {
    inner: Mutex<Inner>,
    rules: Mutex<Rules>,
    shell: OnceLock<Weak<Shell>>,
    /// Wakes [`World::pass`] after a change.
    turn: Notify,
}

#[derive(Debug)]
struct Inner {
    behaviours: Behaviours,
    dice: Dice,
    flaw: Option<Flaw>,
    instances: Vec<SimInstance>,
    /// Index into `instances` for each start, in order.
    starts: Vec<usize>,
    at_once: (Option<Instant>, u32),
}

impl World {
    pub(super) fn new(
        seed: u64,
        behaviours: Behaviours,
        flaw: Option<Flaw>,
        config: &Config,
    ) -> Arc<Self> {
        let inner = Inner {
            behaviours,
            dice: Dice::new(seed ^ 0x5eed),
            flaw,
            instances: Vec::new(),
            starts: Vec::new(),
            at_once: (None, 0),
        };
        Arc::new(Self {
            inner: Mutex::new(inner),
            rules: Mutex::new(Rules::new(config.clone())),
            shell: OnceLock::new(),
            turn: Notify::new(),
        })
    }

    /// Connects the rules to this keeper's events.
    pub(super) fn watch(&self, keeper: &Keeper) {
        self.rules().listen(keeper.events());
        let _ = self.shell.set(Arc::downgrade(&keeper.shell));
    }

    pub(super) fn shell(&self) -> Option<Arc<Shell>> {
        self.shell.get()?.upgrade()
    }

    pub(super) fn rules(&self) -> MutexGuard<'_, Rules> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn flaw(&self) -> Option<Flaw> {
        self.inner().flaw
    }

    /// Checks every rule now.
    pub(super) fn audit(&self) {
        let Some(shell) = self.shell() else { return };
        let state = shell.state();
        let inner = self.inner();
        self.rules().check(&state, &inner.instances, &inner.starts, now());
    }

    pub(super) fn violation(&self) -> Option<String> {
        self.rules().violation.clone()
    }

    /// Lets time pass and checks every rule after each change.
    pub(super) async fn pass(&self, time: Duration) {
        let end = tokio::time::Instant::now() + time;
        loop {
            let turn = self.turn.notified();
            tokio::select! {
                biased;
                () = turn => self.audit(),
                () = tokio::time::sleep_until(end) => break,
            }
        }
        self.audit();
    }

    /// Reports a change, so that the rules are checked.
    pub(super) fn happens(&self) {
        self.turn.notify_one();
    }

    pub(super) fn note(&self, what: impl FnOnce() -> String) {
        self.rules().note(now(), what);
    }

    /// Starts an instance. Returns its index.
    pub(super) fn begin(&self, name: &str, containers: usize) -> usize {
        self.audit();
        let index = {
            let mut inner = self.inner();
            let Inner { behaviours, dice, .. } = &mut *inner;
            let behaviour = Behaviour::draw(*behaviours, dice);
            let index = inner.instances.len();
            self.rules().note(now(), || format!("instance {index}: {name} {behaviour:?}"));
            let copies = if inner.flaw == Some(Flaw::Twins) { 2 } else { 1 };
            for _ in 0..copies {
                let instance =
                    SimInstance::new(name.to_owned(), containers, behaviour.clone(), now());
                inner.instances.push(instance);
            }
            inner.starts.push(index);
            index
        };
        self.audit();
        self.happens();
        index
    }

    pub(super) fn of<T>(&self, index: usize, look: impl FnOnce(&mut SimInstance) -> T) -> T {
        let mut inner = self.inner();
        if inner.goes_round_in_circles() {
            self.rules().broken("something goes round in circles".into());
            std::panic::resume_unwind(Box::new("stuck"));
        }
        look(&mut inner.instances[index])
    }

    pub(super) fn next_event(
        &self,
        index: usize,
        waker: &Waker,
    ) -> Result<GuardianEvent, Option<Instant>> {
        let event = self.of(index, |instance| {
            instance.waker = Some(waker.clone());
            instance.next_event(now())
        });
        if let Ok(event) = event {
            self.audit();
            self.note(|| format!("instance {index}: {event:?}"));
            self.happens();
        }
        event
    }

    pub(super) fn stop(&self, index: usize) {
        self.audit();
        let lies = self.flaw() == Some(Flaw::Lies);
        self.of(index, |instance| {
            instance.stop(now());
            if lies {
                instance.gone = None;
            }
        });
        self.happens();
    }

    /// The server reads input and schedules its responses.
    pub(super) fn hear(&self, index: usize, bytes: &[u8]) {
        self.of(index, |instance| {
            instance.heard.extend_from_slice(bytes);
            while let Some(end) = instance.heard.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = instance.heard.drain(..=end).collect();
                instance.answer(&line[..end], now());
            }
        });
    }

    /// Indices of the living instances, in order of their starts.
    pub(super) fn living(&self) -> Vec<usize> {
        let inner = self.inner();
        let alive =
            inner.instances.iter().enumerate().filter(|(_, instance)| instance.is_alive(now()));
        alive.map(|(index, _)| index).collect()
    }

    pub(super) fn handshakes(&self) -> usize {
        self.inner().instances.iter().map(|instance| instance.greetings).sum()
    }

    pub(super) fn starts(&self) -> usize {
        self.inner().starts.len()
    }
}

impl Inner {
    fn goes_round_in_circles(&mut self) -> bool {
        let now = Some(now());
        self.at_once = if self.at_once.0 == now { (now, self.at_once.1 + 1) } else { (now, 0) };
        self.at_once.1 == MOST_AT_ONCE
    }
}

impl SimInstance {
    fn answer(&mut self, line: &[u8], now: Instant) {
        let Ok(frame) = Frame::parse(line.to_vec()) else { return };
        if frame.kind() != Kind::Request {
            return;
        }
        let id = String::from_utf8_lossy(frame.id()).into_owned();
        let result = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{}}}}\n");
        if !line.windows(7).any(|word| word == b"\"hello\"") {
            if let Some(after) = self.behaviour.answer {
                self.output.say(now + after, result.as_bytes());
            }
            return;
        }
        self.greetings += 1;
        match self.behaviour.greeting {
            Greeting::Answered(after) => self.output.say(now + after, result.as_bytes()),
            Greeting::Refused(after) => {
                let refusal = format!("{{\"id\":{id},\"error\":{{\"code\":1}}}}\n");
                self.output.say(now + after, refusal.as_bytes());
            }
            Greeting::Garbage(after) => self.output.say(now + after, b"hello, who is there?\n"),
            Greeting::Never => {}
        }
    }
}
