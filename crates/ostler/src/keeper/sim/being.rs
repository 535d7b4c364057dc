//! One simulated server, from its guardian to the last of its processes.

use std::collections::VecDeque;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::task::Waker;
use std::time::{Duration, Instant};

use super::fate::{Beginning, Burial, Fate, GRACE, LINGER, PROOF, Rescue};
use super::flow::Flow;
use crate::event::Event;
use crate::level::Level;
use crate::outcome::{Proof, Refusal, Residue};
use crate::proctable::Identity;
use crate::whereabouts::Whereabouts;

/// What a server writes to stderr when it exits.
pub(super) const LAST_WORDS: &[u8] = b"out of memory";

/// A server that exists, or has existed.
#[derive(Debug)]
pub(super) struct Being {
    pub(super) name: String,
    /// How many containers it is.
    pub(super) containers: usize,
    pub(super) fate: Fate,
    /// When nothing is left of it, in truth.
    pub(super) gone: Option<Instant>,
    /// When the server itself is gone.
    pub(super) exit: Option<Instant>,
    /// What its guardian will report, in order.
    pub(super) agenda: VecDeque<(Instant, Deed)>,
    pub(super) output: Flow,
    pub(super) stderr: Flow,
    pub(super) heard: Vec<u8>,
    /// How many handshakes it has seen.
    pub(super) greetings: usize,
    pub(super) waker: Option<Waker>,
    since: Instant,
    /// It has no guardian any more, or none that anybody hears.
    is_released: bool,
}

/// What a guardian reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    Started,
    Refused,
    Exited(i32),
    Remaining,
    Empty,
    GuardianLost,
}

impl Being {
    /// Its guardian is there after `fate.launch`.
    pub(super) fn new(name: String, containers: usize, fate: Fate, now: Instant) -> Self {
        let since = now + fate.launch;
        let mut being = Self {
            name,
            containers,
            fate,
            gone: None,
            exit: None,
            agenda: VecDeque::new(),
            output: Flow::default(),
            stderr: Flow::default(),
            heard: Vec::new(),
            greetings: 0,
            waker: None,
            since,
            is_released: false,
        };
        being.plan_life();
        being
    }

    fn plan_life(&mut self) {
        let Fate { exit, guardian, notify, mute, rant, .. } = self.fate;
        match self.fate.beginning {
            Beginning::Failed => self.gone = Some(self.since),
            Beginning::Refused(after) => {
                self.gone = Some(self.since + after);
                self.agenda.push_back((self.since + after, Deed::Refused));
            }
            Beginning::Runs(after) => {
                self.agenda.push_back((self.since + after, Deed::Started));
                if let Some(exit) = exit {
                    self.exits(self.since + exit, 1);
                }
                if let Some((at, _)) = guardian {
                    self.lose_guardian(self.since + at);
                }
            }
        }
        if let Some(at) = notify {
            self.output.say(self.since + at, b"{\"method\":\"changed\"}\n");
        }
        if let Some(at) = rant {
            self.output.say(self.since + at, &[b'x'; 1000]);
        }
        if let Some(at) = mute {
            self.output.close(self.since + at);
        }
    }

    pub(super) fn is_alive(&self, now: Instant) -> bool {
        self.gone.is_none_or(|gone| now < gone)
    }

    pub(super) fn is_running(&self, now: Instant) -> bool {
        self.exit.is_none_or(|exit| now < exit) && self.is_alive(now)
    }

    /// Its input at this moment: `None` if it has none any more.
    pub(super) fn reads(&self, now: Instant) -> Option<bool> {
        let passed = |at: Option<Duration>| at.is_some_and(|at| now >= self.since + at);
        let has_input = self.is_running(now) && !passed(self.fate.sealed);
        has_input.then(|| !passed(self.fate.deaf))
    }

    /// The server exits, and what it caused goes after it.
    pub(super) fn exits(&mut self, at: Instant, status: i32) {
        let is_over = |end: Option<Instant>| end.is_some_and(|end| end <= at);
        if is_over(self.exit) || is_over(self.gone) || !self.comes_to_be() {
            return;
        }
        self.exit = Some(at);
        self.close_pipes(at);
        if self.is_released {
            self.gone = Some(at);
            return;
        }
        self.agenda.retain(|(due, deed)| *deed == Deed::Started && *due <= at);
        self.agenda.push_back((at, Deed::Exited(status)));
        let empty = match self.fate.burial {
            Burial::After(lag) => at + lag,
            Burial::Lingers(lag) => {
                self.agenda.push_back((at + PROOF, Deed::Remaining));
                at + lag
            }
        };
        self.agenda.push_back((empty, Deed::Empty));
        self.gone = Some(empty);
        self.wake();
    }

    /// What is left is reported before anything else is: its guardian was told to end it by others.
    pub(super) fn remains(&mut self, now: Instant) {
        if !self.is_running(now) || !self.has_guardian(now) {
            return;
        }
        self.agenda.retain(|(_, deed)| *deed == Deed::Started);
        self.agenda.push_back((now, Deed::Remaining));
        self.exit = Some(now + GRACE);
        self.close_pipes(now + GRACE);
        self.agenda.push_back((now + GRACE, Deed::Exited(9)));
        self.agenda.push_back((now + GRACE, Deed::Empty));
        self.gone = Some(now + GRACE);
        self.wake();
    }

    pub(super) fn lose_guardian(&mut self, at: Instant) {
        if !self.is_alive(at) || !self.has_guardian(at) {
            return;
        }
        self.agenda.retain(|(due, _)| *due <= at);
        self.agenda.push_back((at, Deed::GuardianLost));
        if self.gone.is_some_and(|gone| gone > at) {
            self.gone = None;
        }
        self.wake();
    }

    fn comes_to_be(&self) -> bool {
        matches!(self.fate.beginning, Beginning::Runs(_))
    }

    fn has_guardian(&self, now: Instant) -> bool {
        let is_there = now >= self.since && self.comes_to_be();
        is_there && !self.is_released && !self.has_lost_guardian()
    }

    fn has_lost_guardian(&self) -> bool {
        self.agenda.iter().any(|(_, deed)| *deed == Deed::GuardianLost)
    }

    /// It is told to stop, and is killed if it does not.
    pub(super) fn stop(&mut self, now: Instant) {
        if self.has_lost_guardian() && self.agenda.front().is_some_and(|(due, _)| *due <= now) {
            return;
        }
        let leave = self.fate.leave.min(GRACE);
        self.exits(now + leave, 0);
    }

    /// Nobody holds it any more: its guardian ends it.
    pub(super) fn let_go(&mut self, now: Instant) {
        if std::mem::replace(&mut self.is_released, true) {
            return;
        }
        self.agenda.clear();
        let end = now + GRACE;
        if self.gone.is_none_or(|gone| gone > end) {
            self.gone = Some(end);
            self.exit = Some(self.exit.map_or(end, |exit| exit.min(end)));
            self.close_pipes(end);
        }
    }

    /// Its guardian was killed, and somebody has ended what was left.
    pub(super) fn rescued(&mut self, rescue: Rescue, now: Instant) {
        self.is_released = true;
        self.exit = Some(self.exit.map_or(now, |exit| exit.min(now)));
        self.close_pipes(now);
        let stays = matches!(rescue, Rescue::Stays(_));
        self.gone = Some(if stays { now + LINGER } else { now });
    }

    /// Its output ends with it. Its last words may become readable later, as they do when the runtime is slow.
    fn close_pipes(&mut self, at: Instant) {
        self.output.close(at);
        if let Some(lag) = self.fate.stderr {
            self.stderr.say(at + lag, LAST_WORDS);
            self.stderr.close(at + lag);
        }
    }

    /// What its guardian has to report now, or when it will.
    pub(super) fn next_deed(&mut self, now: Instant) -> Result<Deed, Option<Instant>> {
        match self.agenda.front() {
            Some((due, _)) if *due > now => Err(Some(*due)),
            Some(_) => self.agenda.pop_front().map(|(_, deed)| deed).ok_or(None),
            None => Err(None),
        }
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl Deed {
    pub(super) fn event(self, program: &str) -> Event {
        let nobody = Identity { pid: 0, start: 0 };
        match self {
            Self::Started => Event::Started {
                whereabouts: Whereabouts::Process { guardian: nobody, server: nobody },
                level: Some(Level::Tree),
            },
            Self::Refused => Event::Refused(Refusal::NotFound { program: program.to_owned() }),
            Self::Exited(status) => Event::Exited(ExitStatus::from_raw(status)),
            Self::Remaining => Event::Remaining(Residue::Processes(Vec::new())),
            Self::Empty => Event::Empty(Proof::NoChild),
            Self::GuardianLost => Event::GuardianLost,
        }
    }
}
