//! One simulated instance: guardian, server and all processes of the server.

use std::collections::VecDeque;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::task::Waker;
use std::time::{Duration, Instant};

use super::behaviour::{Behaviour, Cleanup, GRACE, LINGER, PROOF, Rescue, StartOutcome};
use super::output::SimOutput;
use crate::event::Event;
use crate::level::Level;
use crate::outcome::{Proof, Refusal, Residue};
use crate::proctable::Identity;
use crate::whereabouts::Whereabouts;

/// What a server writes to stderr when it exits.
pub(super) const LAST_OUTPUT: &[u8] = b"out of memory";

/// An instance that was started.
#[derive(Debug)]
pub(super) struct SimInstance {
    pub(super) name: String,
    /// Number of containers it counts for.
    pub(super) containers: usize,
    pub(super) behaviour: Behaviour,
    /// When its last process is gone.
    pub(super) gone: Option<Instant>,
    /// When the server itself exits.
    pub(super) exit: Option<Instant>,
    /// Events its guardian will report, in order.
    pub(super) agenda: VecDeque<(Instant, GuardianEvent)>,
    pub(super) output: SimOutput,
    pub(super) stderr: SimOutput,
    pub(super) heard: Vec<u8>,
    /// Number of handshakes it has received.
    pub(super) greetings: usize,
    pub(super) waker: Option<Waker>,
    since: Instant,
    /// Its guardian is dead, or its reports are no longer read.
    is_released: bool,
}

/// An event that a guardian reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GuardianEvent {
    Started,
    Refused,
    Exited(i32),
    Remaining,
    Empty,
    GuardianLost,
}

impl SimInstance {
    /// The guardian runs after `behaviour.launch`.
    pub(super) fn new(name: String, containers: usize, behaviour: Behaviour, now: Instant) -> Self {
        let since = now + behaviour.launch;
        let mut instance = Self {
            name,
            containers,
            behaviour,
            gone: None,
            exit: None,
            agenda: VecDeque::new(),
            output: SimOutput::default(),
            stderr: SimOutput::default(),
            heard: Vec::new(),
            greetings: 0,
            waker: None,
            since,
            is_released: false,
        };
        instance.plan_life();
        instance
    }

    fn plan_life(&mut self) {
        let Behaviour { exit, guardian, notify, closes_output, long_line, .. } = self.behaviour;
        match self.behaviour.start {
            StartOutcome::Failed => self.gone = Some(self.since),
            StartOutcome::Refused(after) => {
                self.gone = Some(self.since + after);
                self.agenda.push_back((self.since + after, GuardianEvent::Refused));
            }
            StartOutcome::Runs(after) => {
                self.agenda.push_back((self.since + after, GuardianEvent::Started));
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
        if let Some(at) = long_line {
            self.output.say(self.since + at, &[b'x'; 1000]);
        }
        if let Some(at) = closes_output {
            self.output.close(self.since + at);
        }
    }

    pub(super) fn is_alive(&self, now: Instant) -> bool {
        self.gone.is_none_or(|gone| now < gone)
    }

    pub(super) fn is_running(&self, now: Instant) -> bool {
        self.exit.is_none_or(|exit| now < exit) && self.is_alive(now)
    }

    /// Whether it reads its input now; `None` if its input is closed.
    pub(super) fn reads(&self, now: Instant) -> Option<bool> {
        let passed = |at: Option<Duration>| at.is_some_and(|at| now >= self.since + at);
        let has_input = self.is_running(now) && !passed(self.behaviour.closes_input);
        has_input.then(|| !passed(self.behaviour.stops_reading))
    }

    /// The server exits, and its other processes end after it.
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
        self.agenda.retain(|(due, event)| *event == GuardianEvent::Started && *due <= at);
        self.agenda.push_back((at, GuardianEvent::Exited(status)));
        let empty = match self.behaviour.cleanup {
            Cleanup::After(lag) => at + lag,
            Cleanup::Lingers(lag) => {
                self.agenda.push_back((at + PROOF, GuardianEvent::Remaining));
                at + lag
            }
        };
        self.agenda.push_back((empty, GuardianEvent::Empty));
        self.gone = Some(empty);
        self.wake();
    }

    /// Another process told its guardian to stop it, so the keeper first hears that processes remain.
    pub(super) fn remains(&mut self, now: Instant) {
        if !self.is_running(now) || !self.has_guardian(now) {
            return;
        }
        self.agenda.retain(|(_, event)| *event == GuardianEvent::Started);
        self.agenda.push_back((now, GuardianEvent::Remaining));
        self.exit = Some(now + GRACE);
        self.close_pipes(now + GRACE);
        self.agenda.push_back((now + GRACE, GuardianEvent::Exited(9)));
        self.agenda.push_back((now + GRACE, GuardianEvent::Empty));
        self.gone = Some(now + GRACE);
        self.wake();
    }

    pub(super) fn lose_guardian(&mut self, at: Instant) {
        if !self.is_alive(at) || !self.has_guardian(at) {
            return;
        }
        self.agenda.retain(|(due, _)| *due <= at);
        self.agenda.push_back((at, GuardianEvent::GuardianLost));
        if self.gone.is_some_and(|gone| gone > at) {
            self.gone = None;
        }
        self.wake();
    }

    fn comes_to_be(&self) -> bool {
        matches!(self.behaviour.start, StartOutcome::Runs(_))
    }

    fn has_guardian(&self, now: Instant) -> bool {
        let is_there = now >= self.since && self.comes_to_be();
        is_there && !self.is_released && !self.has_lost_guardian()
    }

    fn has_lost_guardian(&self) -> bool {
        self.agenda.iter().any(|(_, event)| *event == GuardianEvent::GuardianLost)
    }

    /// It is asked to stop, and killed after the grace time.
    pub(super) fn stop(&mut self, now: Instant) {
        if self.has_lost_guardian() && self.agenda.front().is_some_and(|(due, _)| *due <= now) {
            return;
        }
        let exit_delay = self.behaviour.exit_delay.min(GRACE);
        self.exits(now + exit_delay, 0);
    }

    /// The keeper has dropped its hold: the guardian stops it.
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

    /// The keeper has stopped it after its guardian was killed.
    pub(super) fn rescued(&mut self, rescue: Rescue, now: Instant) {
        self.is_released = true;
        self.exit = Some(self.exit.map_or(now, |exit| exit.min(now)));
        self.close_pipes(now);
        let stays = matches!(rescue, Rescue::Stays(_));
        self.gone = Some(if stays { now + LINGER } else { now });
    }

    /// Closes its output. Its last lines on stderr may become readable later, as they do when the runtime is slow.
    fn close_pipes(&mut self, at: Instant) {
        self.output.close(at);
        if let Some(lag) = self.behaviour.stderr {
            self.stderr.say(at + lag, LAST_OUTPUT);
            self.stderr.close(at + lag);
        }
    }

    /// The guardian's next event, or the time of it.
    pub(super) fn next_event(&mut self, now: Instant) -> Result<GuardianEvent, Option<Instant>> {
        match self.agenda.front() {
            Some((due, _)) if *due > now => Err(Some(*due)),
            Some(_) => self.agenda.pop_front().map(|(_, event)| event).ok_or(None),
            None => Err(None),
        }
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl GuardianEvent {
    pub(super) fn event(self, program: &str) -> Event {
        let none = Identity { pid: 0, start: 0 };
        match self {
            Self::Started => Event::Started {
                whereabouts: Whereabouts::Process { guardian: none, server: none },
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
