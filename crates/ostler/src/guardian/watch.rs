//! The guardian's event loop: watches the running server, stops it, and proves that nothing is left.
//!
//! The loop sleeps in one `poll` ([`Guardian::wait`]). After every wake-up it runs all its checks in the same order,
//! whatever the cause was, so no event depends on which descriptor became readable. The instance goes through four
//! [phases](Phase), never back: watching, stopping (the ladder), clearing (containers), proven. The loop ends when
//! the phase is `Proven` and no connected owner still has to record the proof.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::doors::Doors;
use super::stderr_log::StderrLog;
use super::tree::ProcessTree;
use crate::containers::EngineState;
use crate::ladder::{Climb, Ladder, Step};
use crate::ledger::Patience;
use crate::notice::SignalPipe;
use crate::outcome::{Outcome, Proof, Residue};
use crate::sweep::DeadOwner;
use crate::wire::guardian::{GuardianOrder, GuardianReport, Launch};
use crate::wire::porter::PorterReport;
use crate::wire::{Conn, Received};

/// First delay between two rounds of SIGKILL. It doubles up to [`LAST_RETRY`], because a process in uninterruptible
/// sleep or in a frozen cgroup can resist for long.
const FIRST_RETRY: Duration = Duration::from_millis(10);
const LAST_RETRY: Duration = Duration::from_secs(1);

#[derive(Debug)]
enum Phase {
    Watching,
    Stopping(Climb),
    /// No process is left; an engine may still hold containers.
    Clearing(Proof),
    /// Nothing is left; the owner still has to record the proof.
    Proven(Proof),
}

/// What the guardian knows about its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OwnerState {
    Connected,
    /// The owner has recorded the proof and sent `Dismiss`.
    Dismissed,
    /// The owner is alive but closed the control socket: it dropped the instance.
    Disconnected,
    Dead,
}

/// A launched server with everything needed to guard it.
#[derive(Debug)]
pub(super) struct GuardedServer {
    /// A pidfd.
    pub(super) owner: OwnedFd,
    pub(super) signals: SignalPipe,
    pub(super) tree: ProcessTree,
    /// `None`: the server may not use container engines.
    pub(super) doors: Option<Doors>,
    /// `None`: the server has a stderr of its own, or nothing is left of it.
    pub(super) log: Option<StderrLog>,
    pub(super) orders: Box<Launch>,
}

#[derive(Debug)]
pub(super) struct Guardian {
    conn: Conn,
    server: GuardedServer,
    owner: OwnerState,
    phase: Phase,
    /// Delay until the next round of SIGKILL.
    retry: Duration,
    residue_reported: bool,
}

impl Guardian {
    pub(super) fn new(conn: Conn, server: GuardedServer) -> Self {
        Self {
            conn,
            server,
            owner: OwnerState::Connected,
            phase: Phase::Watching,
            retry: FIRST_RETRY,
            residue_reported: false,
        }
    }

    /// Returns when nothing is left and the owner has recorded the proof, or can't any more.
    pub(super) fn watch(mut self) {
        while !self.is_done() {
            self.wait();
            let now = Instant::now();
            self.reap_children(now);
            self.check_sigterm(now);
            self.check_owner(now);
            self.receive_orders(now);
            self.supervise_porter(now);
            self.advance_ladder(now);
            self.try_prove();
        }
        if let Some(doors) = self.server.doors.take() {
            doors.close(&self.server.tree);
        }
        self.settle_ledger();
    }

    fn is_done(&self) -> bool {
        self.proof().is_some() && self.owner != OwnerState::Connected
    }

    fn proof(&self) -> Option<Proof> {
        if let Phase::Proven(proof) = &self.phase { Some(proof.clone()) } else { None }
    }

    /// Records the proof in the ledger of an owner that is gone, and sweeps that owner's other instances.
    ///
    /// The last guardian of a dead owner leaves an empty ledger.
    fn settle_ledger(&self) {
        let patience = match self.owner {
            OwnerState::Connected | OwnerState::Dismissed => return,
            // A living owner may hold its ledger's lock for its other instances.
            OwnerState::Disconnected => Patience::GiveUp,
            OwnerState::Dead => Patience::Wait,
        };
        let Launch { id, book: Some(book), proof_limit, .. } = &*self.server.orders else { return };
        let dead = DeadOwner::at(book, patience);
        if let (Some(mut dead), Some(proof)) = (dead, self.proof()) {
            dead.note(*id, &Outcome::Gone(proof));
            dead.settle(*proof_limit);
        }
    }

    /// Blocks until something happens. The guardian sleeps nowhere else.
    fn wait(&self) {
        let mut fds = vec![PollFd::new(&self.server.signals, PollFlags::IN)];
        if self.owner != OwnerState::Dead {
            fds.push(PollFd::new(&self.server.owner, PollFlags::IN));
        }
        if self.owner == OwnerState::Connected {
            fds.push(PollFd::new(&self.conn, PollFlags::IN));
        }
        if let Some(channel) = self.server.tree.init_channel() {
            fds.push(PollFd::new(channel, PollFlags::IN));
        }
        fds.extend(self.server.doors.iter().flat_map(Doors::poll_fds));
        if let (Phase::Stopping(_), Some(watch)) = (&self.phase, self.server.tree.watch()) {
            fds.push(PollFd::new(watch, PollFlags::PRI));
        }
        let limit = self.next_wake().map(|at| at.saturating_duration_since(Instant::now()));
        let limit = limit.and_then(|wait| Timespec::try_from(wait).ok());
        // The result does not matter: after every wake-up the loop runs all checks.
        let _ = poll(&mut fds, limit.as_ref());
    }

    /// When to wake up without an event. `None` while the server runs, so that no timer wakes an idle guardian.
    fn next_wake(&self) -> Option<Instant> {
        let doors = self.server.doors.as_ref().and_then(Doors::next_wake);
        let Phase::Stopping(climb) = &self.phase else { return doors };
        let step = climb.due().unwrap_or_else(|| Instant::now() + self.retry);
        Some(doors.map_or(step, |doors| doors.min(step)))
    }

    fn reap_children(&mut self, now: Instant) {
        self.server.signals.clear();
        let Some(status) = self.server.tree.reap() else { return };
        self.report(&GuardianReport::Exited(status));
        if let (Some(log), Phase::Watching) = (&mut self.server.log, &self.phase) {
            log.exited(status);
        }
        // Descendants that outlive the server are stopped too, with SIGTERM first: they have no stdin of ours to close.
        self.stop(self.server.orders.ladder, Step::Asking, now);
    }

    fn check_sigterm(&mut self, now: Instant) {
        if self.server.signals.take_term() {
            self.stop(self.server.orders.ladder, Step::Asking, now);
        }
    }

    fn check_owner(&mut self, now: Instant) {
        let mut fd = [PollFd::new(&self.server.owner, PollFlags::IN)];
        let dead = matches!(poll(&mut fd, Some(&Timespec::default())), Ok(1..));
        if dead && self.owner != OwnerState::Dead {
            self.owner = OwnerState::Dead;
            self.stop(self.server.orders.orphan_ladder, Step::Asking, now);
        }
    }

    fn receive_orders(&mut self, now: Instant) {
        while self.owner == OwnerState::Connected {
            match self.conn.receive() {
                Ok(Received::Message(GuardianOrder::Stop(step))) => {
                    self.stop(self.server.orders.ladder, step, now);
                }
                Ok(Received::Message(GuardianOrder::Hurry)) => self.hurry(now),
                Ok(Received::Message(GuardianOrder::Dismiss)) if self.proof().is_some() => {
                    self.owner = OwnerState::Dismissed;
                }
                Ok(Received::Message(GuardianOrder::Dismiss | GuardianOrder::Start(_))) => {}
                Ok(Received::NothingYet) => break,
                Ok(Received::Closed) | Err(_) => {
                    self.owner = OwnerState::Disconnected;
                    self.stop(self.server.orders.ladder, Step::Closing, now);
                }
            }
        }
    }

    fn supervise_porter(&mut self, now: Instant) {
        let GuardedServer { doors: Some(doors), tree, .. } = &mut self.server else { return };
        for report in doors.supervise(tree, now) {
            match report {
                PorterReport::Removed(container) => {
                    self.report(&GuardianReport::Removed(container));
                }
                PorterReport::Remaining(residue) => self.report_residue(Residue::Engine(residue)),
                PorterReport::Engine(state) => self.report(&GuardianReport::Clearing(state)),
                PorterReport::Cleared => self.report(&GuardianReport::Clearing(EngineState::Clear)),
            }
        }
    }

    /// Starts the ladder at `from`, or shortens the climb if one is under way.
    fn stop(&mut self, ladder: Ladder, from: Step, now: Instant) {
        let due = match &mut self.phase {
            Phase::Watching => {
                self.phase = Phase::Stopping(Climb::begin(ladder, from, now));
                Some(from)
            }
            Phase::Stopping(climb) => climb.hasten(ladder, from, now),
            Phase::Clearing(_) | Phase::Proven(_) => None,
        };
        self.apply_step(due, now);
    }

    fn hurry(&mut self, now: Instant) {
        if let Phase::Stopping(climb) = &mut self.phase {
            let due = climb.skip(now);
            self.apply_step(due, now);
        }
    }

    fn advance_ladder(&mut self, now: Instant) {
        let Phase::Stopping(climb) = &mut self.phase else { return };
        if climb.step() != Step::Ending {
            let due = climb.advance(now);
            return self.apply_step(due, now);
        }
        let overdue = now.saturating_duration_since(climb.since()) > self.server.orders.proof_limit;
        self.retry = (self.retry * 2).min(LAST_RETRY);
        self.server.tree.kill();
        if overdue && !self.residue_reported {
            self.residue_reported = true;
            self.report_residue(Residue::Processes(self.server.tree.survivors()));
        }
    }

    fn apply_step(&mut self, step: Option<Step>, now: Instant) {
        // `Closing` is the owner's step: the owner holds the other end of the server's stdin.
        let Some(step @ (Step::Asking | Step::Ending)) = step else { return };
        if step == Step::Asking {
            self.server.tree.terminate();
        } else {
            self.server.tree.kill();
        }
        // Containers are stopped along with the processes, with the same grace. During `Closing` the server may still
        // create containers, because it may be working off the rest of its stdin.
        let due = if let Phase::Stopping(climb) = &self.phase { climb.due() } else { None };
        let grace = due.map(|due| due.saturating_duration_since(now)).unwrap_or_default();
        if let Some(doors) = &mut self.server.doors {
            doors.clear(grace);
        }
    }

    fn try_prove(&mut self) {
        if let Phase::Stopping(_) = self.phase {
            // A process that was killed a moment ago is a zombie until it is reaped, and would spoil the proof.
            if let Some(status) = self.server.tree.reap() {
                self.report(&GuardianReport::Exited(status));
            }
            let Some(proof) = self.server.tree.proof() else { return };
            for excess in self.server.tree.excesses() {
                self.report(&GuardianReport::Exceeded(*excess));
            }
            self.phase = Phase::Clearing(proof);
            self.clear_doors();
        }
        if let Phase::Clearing(proof) = &self.phase
            && self.server.doors.as_mut().is_none_or(Doors::close_if_clear)
        {
            let proof = proof.clone();
            // The owner may look into the log as soon as it has the proof.
            self.server.log.take().into_iter().for_each(StderrLog::finish);
            self.report(&GuardianReport::Empty(proof.clone()));
            self.phase = Phase::Proven(proof);
        }
    }

    /// Has the containers cleared. All processes may have exited before the ladder reached the step that does it.
    fn clear_doors(&mut self) {
        let Launch { ladder, orphan_ladder, .. } = &*self.server.orders;
        let ladder = if self.owner == OwnerState::Dead { orphan_ladder } else { ladder };
        if let Some(doors) = &mut self.server.doors {
            doors.clear(ladder.ask);
            doors.server_gone();
        }
    }

    /// Reports what outlived the time limit to the owner, or records it in the ledger of an owner that is gone.
    fn report_residue(&self, residue: Residue) {
        if self.owner == OwnerState::Connected {
            return self.report(&GuardianReport::Remaining(residue));
        }
        let Launch { id, book: Some(book), .. } = &*self.server.orders else { return };
        // Another guardian or a sweep may hold the ledger's lock, and finds the residue by itself.
        if let Some(mut dead) = DeadOwner::at(book, Patience::GiveUp) {
            dead.note(*id, &Outcome::Unverified(residue));
        }
    }

    fn report(&self, report: &GuardianReport) {
        if self.owner == OwnerState::Connected {
            // A failed send means that the owner died or dropped the instance; `poll` reports both.
            let _ = self.conn.send(report, &[]);
        }
    }
}
