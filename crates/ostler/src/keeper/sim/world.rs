//! All that is simulated: the beings, the rules, and the truth about both.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::Waker;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::backend::now;
use super::being::{Being, Deed};
use super::fate::{Fate, Greeting, Temper};
use super::rules::Rules;
use crate::frame::{Frame, Kind};
use crate::keeper::dice::Dice;
use crate::keeper::shell::Shell;
use crate::keeper::{Config, Keeper};

/// As much may happen at one moment; what does more goes round in circles.
const MOST_AT_ONCE: u32 = 20_000;

/// A deliberate mistake of the world, which the rules must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    /// What is let go of lives on.
    Leaks,
    /// What is told to stop is said to be gone although it is not.
    Lies,
    /// Each start starts two.
    Twins,
}

#[derive(Debug)]
pub(super) struct World {
    inner: Mutex<Inner>,
    rules: Mutex<Rules>,
    shell: OnceLock<Weak<Shell>>,
    /// Something has happened.
    turn: Notify,
}

#[derive(Debug)]
struct Inner {
    temper: Temper,
    dice: Dice,
    flaw: Option<Flaw>,
    beings: Vec<Being>,
    /// Where each instance is among the beings, in the order of their starts.
    starts: Vec<usize>,
    at_once: (Option<Instant>, u32),
}

impl World {
    pub(super) fn new(seed: u64, temper: Temper, flaw: Option<Flaw>, config: &Config) -> Arc<Self> {
        let inner = Inner {
            temper,
            dice: Dice::new(seed ^ 0x5eed),
            flaw,
            beings: Vec::new(),
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

    /// From now on this keeper is watched.
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

    /// Checks every rule, before anything else happens.
    pub(super) fn audit(&self) {
        let Some(shell) = self.shell() else { return };
        let state = shell.state();
        let inner = self.inner();
        self.rules().check(&state, &inner.beings, &inner.starts, now());
    }

    pub(super) fn violation(&self) -> Option<String> {
        self.rules().violation.clone()
    }

    /// Time passes, and every rule is checked whenever something has happened meanwhile.
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

    /// Whoever lets time pass looks at the rules now.
    pub(super) fn happens(&self) {
        self.turn.notify_one();
    }

    pub(super) fn note(&self, what: impl FnOnce() -> String) {
        self.rules().note(now(), what);
    }

    /// One more is started. Says which.
    pub(super) fn begin(&self, name: &str, containers: usize) -> usize {
        self.audit();
        let index = {
            let mut inner = self.inner();
            let Inner { temper, dice, .. } = &mut *inner;
            let fate = Fate::draw(*temper, dice);
            let index = inner.beings.len();
            self.rules().note(now(), || format!("being {index}: {name} {fate:?}"));
            let copies = if inner.flaw == Some(Flaw::Twins) { 2 } else { 1 };
            for _ in 0..copies {
                let being = Being::new(name.to_owned(), containers, fate.clone(), now());
                inner.beings.push(being);
            }
            inner.starts.push(index);
            index
        };
        self.audit();
        self.happens();
        index
    }

    pub(super) fn of<T>(&self, index: usize, look: impl FnOnce(&mut Being) -> T) -> T {
        let mut inner = self.inner();
        if inner.goes_round_in_circles() {
            self.rules().broken("something goes round in circles".into());
            std::panic::resume_unwind(Box::new("stuck"));
        }
        look(&mut inner.beings[index])
    }

    pub(super) fn next_deed(&self, index: usize, waker: &Waker) -> Result<Deed, Option<Instant>> {
        let deed = self.of(index, |being| {
            being.waker = Some(waker.clone());
            being.next_deed(now())
        });
        if let Ok(deed) = deed {
            self.audit();
            self.note(|| format!("being {index}: {deed:?}"));
            self.happens();
        }
        deed
    }

    pub(super) fn stop(&self, index: usize) {
        self.audit();
        let lies = self.flaw() == Some(Flaw::Lies);
        self.of(index, |being| {
            being.stop(now());
            if lies {
                being.gone = None;
            }
        });
        self.happens();
    }

    /// The server reads, and answers as it is its way.
    pub(super) fn hear(&self, index: usize, bytes: &[u8]) {
        self.of(index, |being| {
            being.heard.extend_from_slice(bytes);
            while let Some(end) = being.heard.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = being.heard.drain(..=end).collect();
                being.answer(&line[..end], now());
            }
        });
    }

    /// The living, in the order of their starts.
    pub(super) fn living(&self) -> Vec<usize> {
        let inner = self.inner();
        let alive = inner.beings.iter().enumerate().filter(|(_, being)| being.is_alive(now()));
        alive.map(|(index, _)| index).collect()
    }

    pub(super) fn handshakes(&self) -> usize {
        self.inner().beings.iter().map(|being| being.greetings).sum()
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

impl Being {
    fn answer(&mut self, line: &[u8], now: Instant) {
        let Ok(frame) = Frame::parse(line.to_vec()) else { return };
        if frame.kind() != Kind::Request {
            return;
        }
        let id = String::from_utf8_lossy(frame.id()).into_owned();
        let result = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{}}}}\n");
        if !line.windows(7).any(|word| word == b"\"hello\"") {
            if let Some(after) = self.fate.answer {
                self.output.say(now + after, result.as_bytes());
            }
            return;
        }
        self.greetings += 1;
        match self.fate.greeting {
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
