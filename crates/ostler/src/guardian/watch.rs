//! The watch over a running server, and the way down.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::estate::{Estate, ask, remains};
use super::notice::Notice;
use super::wire::{Conn, Launch, Order, Received, Report};
use crate::fence::{Outcome, Proof, Residue};
use crate::ladder::{Climb, Ladder, Step};
use crate::ledger::Patience;
use crate::process::Processes;
use crate::sweep::DeadOwner;

/// Between two rounds of KILL if nothing else happens: what resists (an uninterruptible wait, a
/// frozen cgroup) is tried again without a busy loop.
const FIRST_RETRY: Duration = Duration::from_millis(10);
const LAST_RETRY: Duration = Duration::from_secs(1);

#[derive(Debug)]
enum Phase {
    Watching,
    Stopping(Climb),
    /// Nothing is left; the owner has to take note of it.
    Proven(Proof),
}

/// Who may still give orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Listening,
    /// It has taken note of the proof.
    Satisfied,
    /// The control socket has ended although the owner lives: the instance was dropped.
    Silent,
    Dead,
}

/// A server that runs, and what is needed to guard it.
#[derive(Debug)]
pub(super) struct Charge {
    /// A pidfd of the owner.
    pub(super) owner: OwnedFd,
    pub(super) notice: Notice,
    pub(super) estate: Estate,
    pub(super) orders: Box<Launch>,
}

#[derive(Debug)]
pub(super) struct Guardian {
    conn: Conn,
    charge: Charge,
    owner: Owner,
    phase: Phase,
    retry: Duration,
    residue_reported: bool,
}

impl Guardian {
    pub(super) fn new(conn: Conn, charge: Charge) -> Self {
        Self {
            conn,
            charge,
            owner: Owner::Listening,
            phase: Phase::Watching,
            retry: FIRST_RETRY,
            residue_reported: false,
        }
    }

    /// Returns when nothing is left and nobody waits to hear it.
    pub(super) fn watch(mut self) {
        while !self.is_done() {
            self.wait();
            let now = Instant::now();
            self.see_children(now);
            self.see_requests(now);
            self.see_owner(now);
            self.hear_orders(now);
            self.climb(now);
            self.prove();
        }
        self.settle_ledger();
    }

    fn is_done(&self) -> bool {
        self.proof().is_some() && self.owner != Owner::Listening
    }

    fn proof(&self) -> Option<Proof> {
        if let Phase::Proven(proof) = self.phase { Some(proof) } else { None }
    }

    /// Nobody else will: the owner is gone. The last of its guardians leaves an empty ledger.
    fn settle_ledger(&self) {
        let patience = match self.owner {
            Owner::Listening | Owner::Satisfied => return,
            // It may hold its ledger for the sake of other instances.
            Owner::Silent => Patience::GiveUp,
            Owner::Dead => Patience::Wait,
        };
        let Launch { id, book, proof_limit, .. } = &*self.charge.orders;
        let dead = DeadOwner::at(book, patience);
        if let (Some(mut dead), Some(proof)) = (dead, self.proof()) {
            dead.note(*id, &Outcome::Gone(proof));
            dead.settle(&Processes, *proof_limit);
        }
    }

    /// The one place where the guardian sleeps.
    fn wait(&self) {
        let mut fds = vec![PollFd::new(&self.charge.notice, PollFlags::IN)];
        if self.owner != Owner::Dead {
            fds.push(PollFd::new(&self.charge.owner, PollFlags::IN));
        }
        if self.owner == Owner::Listening {
            fds.push(PollFd::new(&self.conn, PollFlags::IN));
        }
        if let Some(line) = self.charge.estate.line() {
            fds.push(PollFd::new(line, PollFlags::IN));
        }
        if let (Phase::Stopping(_), Some(watch)) = (&self.phase, self.charge.estate.watch()) {
            fds.push(PollFd::new(watch, PollFlags::PRI));
        }
        let limit = self.next_wake().map(|at| at.saturating_duration_since(Instant::now()));
        let limit = limit.and_then(|wait| Timespec::try_from(wait).ok());
        // Interrupted or not: whoever wakes looks at everything.
        let _ = poll(&mut fds, limit.as_ref());
    }

    /// None while it only watches: no clock wakes a guardian whose server runs.
    fn next_wake(&self) -> Option<Instant> {
        let Phase::Stopping(climb) = &self.phase else { return None };
        Some(climb.due().unwrap_or_else(|| Instant::now() + self.retry))
    }

    fn see_children(&mut self, now: Instant) {
        self.charge.notice.clear();
        let Some(status) = self.charge.estate.reap() else { return };
        self.report(&Report::Exited(status));
        // What the server leaves behind has lost its purpose, and never had an input to close.
        self.stop(self.charge.orders.ladder, Step::Asking, now);
    }

    fn see_requests(&mut self, now: Instant) {
        if self.charge.notice.take_request() {
            self.stop(self.charge.orders.ladder, Step::Asking, now);
        }
    }

    fn see_owner(&mut self, now: Instant) {
        let mut fd = [PollFd::new(&self.charge.owner, PollFlags::IN)];
        let dead = matches!(poll(&mut fd, Some(&Timespec::default())), Ok(1..));
        if dead && self.owner != Owner::Dead {
            self.owner = Owner::Dead;
            self.stop(self.charge.orders.orphan_ladder, Step::Asking, now);
        }
    }

    fn hear_orders(&mut self, now: Instant) {
        while self.owner == Owner::Listening {
            match self.conn.receive() {
                Ok(Received::Message(Order::Stop(step))) => {
                    self.stop(self.charge.orders.ladder, step, now);
                }
                Ok(Received::Message(Order::Hurry)) => self.hurry(now),
                Ok(Received::Message(Order::Dismiss)) if self.proof().is_some() => {
                    self.owner = Owner::Satisfied;
                }
                Ok(Received::Message(Order::Dismiss | Order::Start(_))) => {}
                Ok(Received::NothingYet) => break,
                Ok(Received::Closed) | Err(_) => {
                    self.owner = Owner::Silent;
                    self.stop(self.charge.orders.ladder, Step::Closing, now);
                }
            }
        }
    }

    /// Begins the way down, or shortens it if that is under way.
    fn stop(&mut self, ladder: Ladder, from: Step, now: Instant) {
        let due = match &mut self.phase {
            Phase::Watching => {
                self.phase = Phase::Stopping(Climb::begin(ladder, from, now));
                Some(from)
            }
            Phase::Stopping(climb) => climb.hasten(ladder, from, now),
            Phase::Proven(_) => None,
        };
        self.carry_out(due);
    }

    fn hurry(&mut self, now: Instant) {
        if let Phase::Stopping(climb) = &mut self.phase {
            let due = climb.skip(now);
            self.carry_out(due);
        }
    }

    fn climb(&mut self, now: Instant) {
        let Phase::Stopping(climb) = &mut self.phase else { return };
        if climb.step() != Step::Ending {
            let due = climb.advance(now);
            return self.carry_out(due);
        }
        let overdue = now.saturating_duration_since(climb.since()) > self.charge.orders.proof_limit;
        self.retry = (self.retry * 2).min(LAST_RETRY);
        self.charge.estate.end();
        if overdue && !self.residue_reported {
            self.residue_reported = true;
            self.report(&Report::Remaining(Residue::Processes(remains())));
        }
    }

    fn carry_out(&self, step: Option<Step>) {
        match step {
            Some(Step::Asking) => ask(),
            Some(Step::Ending) => self.charge.estate.end(),
            // The owner holds the other end of the server's input, not we.
            Some(Step::Closing) | None => {}
        }
    }

    fn prove(&mut self) {
        if !matches!(self.phase, Phase::Stopping(_)) {
            return;
        }
        // Whoever was ended a moment ago is still a zombie that the proof would stumble over.
        if let Some(status) = self.charge.estate.reap() {
            self.report(&Report::Exited(status));
        }
        if let Some(proof) = self.charge.estate.proof() {
            self.phase = Phase::Proven(proof);
            for excess in self.charge.estate.excesses() {
                self.report(&Report::Exceeded(*excess));
            }
            self.report(&Report::Empty(proof));
        }
    }

    fn report(&self, report: &Report) {
        if self.owner == Owner::Listening {
            // An owner that can't hear it has died, or dropped us: both are noticed by the poll.
            let _ = self.conn.send(report, &[]);
        }
    }
}
