//! The watch over a running server, and the way down.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::estate::Estate;
use super::gate::Gate;
use crate::containers::EngineState;
use crate::ladder::{Climb, Ladder, Step};
use crate::ledger::Patience;
use crate::notice::Notice;
use crate::outcome::{Outcome, Proof, Residue};
use crate::sweep::DeadOwner;
use crate::wire::guardian::{Launch, Order, Report};
use crate::wire::{Conn, Received, porter};

/// Between two rounds of KILL if nothing else happens: what resists (an uninterruptible wait, a
/// frozen cgroup) is tried again without a busy loop.
const FIRST_RETRY: Duration = Duration::from_millis(10);
const LAST_RETRY: Duration = Duration::from_secs(1);

#[derive(Debug)]
enum Phase {
    Watching,
    Stopping(Climb),
    /// No process is left; an engine may still have something.
    Clearing(Proof),
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
    /// The server's ways to container engines, if it has any.
    pub(super) gate: Option<Gate>,
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
            self.attend_gate(now);
            self.climb(now);
            self.prove();
        }
        if let Some(gate) = self.charge.gate.take() {
            gate.leave(&self.charge.estate);
        }
        self.settle_ledger();
    }

    fn is_done(&self) -> bool {
        self.proof().is_some() && self.owner != Owner::Listening
    }

    fn proof(&self) -> Option<Proof> {
        if let Phase::Proven(proof) = &self.phase { Some(proof.clone()) } else { None }
    }

    /// Nobody else will: the owner is gone. The last of its guardians leaves an empty ledger.
    fn settle_ledger(&self) {
        let patience = match self.owner {
            Owner::Listening | Owner::Satisfied => return,
            // It may hold its ledger for the sake of other instances.
            Owner::Silent => Patience::GiveUp,
            Owner::Dead => Patience::Wait,
        };
        let Launch { id, book: Some(book), proof_limit, .. } = &*self.charge.orders else { return };
        let dead = DeadOwner::at(book, patience);
        if let (Some(mut dead), Some(proof)) = (dead, self.proof()) {
            dead.note(*id, &Outcome::Gone(proof));
            dead.settle(*proof_limit);
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
        fds.extend(self.charge.gate.iter().flat_map(Gate::poll_fds));
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
        let gate = self.charge.gate.as_ref().and_then(Gate::next_wake);
        let Phase::Stopping(climb) = &self.phase else { return gate };
        let step = climb.due().unwrap_or_else(|| Instant::now() + self.retry);
        Some(gate.map_or(step, |gate| gate.min(step)))
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

    fn attend_gate(&mut self, now: Instant) {
        let Charge { gate: Some(gate), estate, .. } = &mut self.charge else { return };
        for report in gate.attend(estate, now) {
            match report {
                porter::Report::Removed(container) => self.report(&Report::Removed(container)),
                porter::Report::Remaining(residue) => self.tell_of(Residue::Engine(residue)),
                porter::Report::Engine(state) => self.report(&Report::Clearing(state)),
                porter::Report::Cleared => self.report(&Report::Clearing(EngineState::Clear)),
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
            Phase::Clearing(_) | Phase::Proven(_) => None,
        };
        self.carry_out(due, now);
    }

    fn hurry(&mut self, now: Instant) {
        if let Phase::Stopping(climb) = &mut self.phase {
            let due = climb.skip(now);
            self.carry_out(due, now);
        }
    }

    fn climb(&mut self, now: Instant) {
        let Phase::Stopping(climb) = &mut self.phase else { return };
        if climb.step() != Step::Ending {
            let due = climb.advance(now);
            return self.carry_out(due, now);
        }
        let overdue = now.saturating_duration_since(climb.since()) > self.charge.orders.proof_limit;
        self.retry = (self.retry * 2).min(LAST_RETRY);
        self.charge.estate.end();
        if overdue && !self.residue_reported {
            self.residue_reported = true;
            self.tell_of(Residue::Processes(self.charge.estate.remains()));
        }
    }

    fn carry_out(&mut self, step: Option<Step>, now: Instant) {
        // The owner holds the other end of the server's input, not we.
        let Some(step @ (Step::Asking | Step::Ending)) = step else { return };
        if step == Step::Asking {
            self.charge.estate.ask();
        } else {
            self.charge.estate.end();
        }
        // Containers are asked along with the processes, and have as long to heed it. Before that the
        // server may still create some: what is left in its input is its own to work off.
        let due = if let Phase::Stopping(climb) = &self.phase { climb.due() } else { None };
        let grace = due.map(|due| due.saturating_duration_since(now)).unwrap_or_default();
        if let Some(gate) = &mut self.charge.gate {
            gate.clear(grace);
        }
    }

    fn prove(&mut self) {
        if let Phase::Stopping(_) = self.phase {
            // Whoever was ended a moment ago is still a zombie that the proof would stumble over.
            if let Some(status) = self.charge.estate.reap() {
                self.report(&Report::Exited(status));
            }
            let Some(proof) = self.charge.estate.proof() else { return };
            for excess in self.charge.estate.excesses() {
                self.report(&Report::Exceeded(*excess));
            }
            self.phase = Phase::Clearing(proof);
            self.clear_gate();
        }
        if let Phase::Clearing(proof) = &self.phase
            && self.charge.gate.as_mut().is_none_or(Gate::shut_if_clear)
        {
            let proof = proof.clone();
            self.report(&Report::Empty(proof.clone()));
            self.phase = Phase::Proven(proof);
        }
    }

    /// All processes may have gone before any was asked. Containers are, even so.
    fn clear_gate(&mut self) {
        let Launch { ladder, orphan_ladder, .. } = &*self.charge.orders;
        let ladder = if self.owner == Owner::Dead { orphan_ladder } else { ladder };
        if let Some(gate) = &mut self.charge.gate {
            gate.clear(ladder.ask);
            gate.emptied();
        }
    }

    /// Something did not go in time. If the owner can't take note of it, we do.
    fn tell_of(&self, residue: Residue) {
        if self.owner == Owner::Listening {
            return self.report(&Report::Remaining(residue));
        }
        let Launch { id, book: Some(book), .. } = &*self.charge.orders else { return };
        // Somebody else may be at the ledger, and finds out by itself.
        if let Some(mut dead) = DeadOwner::at(book, Patience::GiveUp) {
            dead.note(*id, &Outcome::Unverified(residue));
        }
    }

    fn report(&self, report: &Report) {
        if self.owner == Owner::Listening {
            // An owner that can't hear it has died, or dropped us: both are noticed by the poll.
            let _ = self.conn.send(report, &[]);
        }
    }
}
