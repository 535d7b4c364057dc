//! An instance: one start of a server, on record from before it starts until its end is proven.
//!
//! An [`Instance`] combines a fence (the control socket to the guardian) with the owner's ledger: every event that
//! matters after a crash is written to the ledger before the caller sees it. The end is recorded before the guardian is
//! dismissed, because the guardian is the only other process that knows it. A dropped instance is stopped by its
//! guardian; a background thread keeps its ledger entry up to date (`graveyard`, `rescue`).

mod owner;
mod rescue;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use owner::Owner;

use crate::event::Event;
use crate::fence::{Fence, Leaving};
use crate::graveyard::reap_later;
use crate::id::InstanceId;
use crate::ladder::Step;
use crate::ledger::{End, Ledger, Record, Start};
use crate::level::Level;
use crate::limits::Limits;
use crate::outcome::{Outcome, Proof, Residue};
use crate::poll::readable;
use crate::process;
use crate::ways::remove_files;
use crate::whereabouts::Whereabouts;

/// A running server with all its processes.
///
/// It needs no runtime: its descriptor becomes readable when [`Instance::next_event`] has an event.
/// Dropping it tells its guardian to stop it, and never waits.
#[derive(Debug)]
pub struct Instance {
    /// `None` only while it is dropped.
    live: Option<LiveInstance>,
}

/// State of an instance; outlives a dropped [`Instance`] until its end is known.
#[derive(Debug)]
pub(crate) struct LiveInstance {
    fence: Fence,
    ledger: Arc<Ledger>,
    limits: Limits,
    /// Set when the server has started.
    whereabouts: Option<Whereabouts>,
    /// The last event has been reported.
    is_over: bool,
    /// The guardian after its dismissal, until it is reaped.
    leaving: Option<Leaving>,
}

impl Instance {
    fn new(fence: Fence, ledger: Arc<Ledger>, limits: Limits) -> Self {
        let live = LiveInstance {
            fence,
            ledger,
            limits,
            whereabouts: None,
            is_over: false,
            leaving: None,
        };
        Self { live: Some(live) }
    }

    /// Its id.
    pub fn id(&self) -> InstanceId {
        self.live().fence.id()
    }

    /// Its processes, once it has started.
    pub fn whereabouts(&self) -> Option<&Whereabouts> {
        self.live().whereabouts.as_ref()
    }

    /// The time limits that it was started with.
    #[cfg(feature = "keeper")]
    pub(crate) fn limits(&self) -> Limits {
        self.live().limits
    }

    /// Starts to stop it at `step` of the ladder. May be repeated: later orders can only shorten the
    /// ladder. A caller that holds the write end of the server's stdin closes it first.
    pub fn stop(&self, step: Step) {
        self.live().fence.stop(step);
    }

    /// Takes the next step of the ladder now.
    pub fn hurry(&self) {
        self.live().fence.hurry();
    }

    /// The next event, if there is one. Never waits.
    pub fn next_event(&mut self) -> io::Result<Option<Event>> {
        self.live_mut().next_event()
    }

    /// Waits for the next event, for at most `limit`.
    pub fn wait_event(&mut self, limit: Duration) -> io::Result<Option<Event>> {
        self.live_mut().wait_event(limit)
    }

    /// Stops it from `step` on and returns how it ended. Bounded by the limits that it was started with;
    /// after that, its guardian goes on to end what is left.
    pub fn close(mut self, step: Step) -> io::Result<Outcome> {
        self.stop(step);
        self.live_mut().await_outcome()
    }

    /// Ends what is left after [`Event::GuardianLost`]. Takes at most [`Limits::proof`] and, if it may
    /// have containers, [`Limits::containers`].
    pub fn rescue(mut self) -> Outcome {
        let live = self.live_mut();
        let outcome = live.rescue();
        live.reap_guardian();
        outcome
    }

    /// Consumes an instance that has ended. Returns its exiting guardian, which is still to be reaped.
    pub fn part(mut self) -> Option<Leaving> {
        self.live_mut().leaving.take()
    }
}

#[expect(clippy::expect_used, reason = "only drop takes it, and nothing is called after that")]
impl Instance {
    fn live(&self) -> &LiveInstance {
        self.live.as_ref().expect("not dropped yet")
    }

    fn live_mut(&mut self) -> &mut LiveInstance {
        self.live.as_mut().expect("not dropped yet")
    }
}

impl LiveInstance {
    fn next_event(&mut self) -> io::Result<Option<Event>> {
        if self.is_over {
            return Ok(None);
        }
        let event = self.fence.next_event()?;
        match &event {
            Some(Event::Started { whereabouts, level }) => self.note_start(whereabouts, *level),
            Some(Event::Refused(_)) => {
                // A guardian that refuses early does not know the files that were made for its server.
                if let Some((_, ways)) = self.fence.ways() {
                    remove_files(ways, self.fence.id());
                }
                self.note_end(End::Refused);
            }
            Some(Event::Empty(proof)) => self.note_end(End::Gone(proof.clone())),
            Some(Event::Remaining(residue)) => {
                let (instance, end) = (self.fence.id(), End::Unverified(residue.clone()));
                self.ledger.note(&Record::Ended { instance, end });
            }
            Some(
                Event::Exited(_)
                | Event::Exceeded(_)
                | Event::Removed(_)
                | Event::Clearing(_)
                | Event::Unfollowed(_)
                | Event::Lost(_)
                | Event::GuardianLost,
            )
            | None => {}
        }
        Ok(event)
    }

    fn wait_event(&mut self, limit: Duration) -> io::Result<Option<Event>> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(event) = self.next_event()? {
                self.reap_guardian();
                return Ok(Some(event));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if self.is_over || left.is_zero() || !readable(&self.fence, left)? {
                return Ok(None);
            }
        }
    }

    fn await_outcome(&mut self) -> io::Result<Outcome> {
        let Limits { grace, proof, containers, .. } = self.limits;
        let deadline = Instant::now() + grace + containers + proof * 2;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.wait_event(left)? {
                Some(Event::Empty(proof)) => return Ok(Outcome::Gone(proof)),
                Some(Event::GuardianLost) => {
                    let outcome = self.rescue();
                    self.reap_guardian();
                    return Ok(outcome);
                }
                Some(Event::Remaining(residue)) => return Ok(Outcome::Unverified(residue)),
                Some(Event::Refused(_)) => return Ok(Outcome::Gone(Proof::NoChild)),
                Some(
                    Event::Started { .. }
                    | Event::Exited(_)
                    | Event::Exceeded(_)
                    | Event::Removed(_)
                    | Event::Clearing(_)
                    | Event::Lost(_)
                    | Event::Unfollowed(_),
                ) => {}
                None => return Ok(Outcome::Unverified(Residue::Processes(Vec::new()))),
            }
        }
    }

    fn rescue(&mut self) -> Outcome {
        let outcome = process::rescue(&mut self.fence);
        self.note_end(End::from(&outcome));
        outcome
    }

    fn note_start(&mut self, whereabouts: &Whereabouts, level: Option<Level>) {
        self.whereabouts = Some(whereabouts.clone());
        let start = Start { instance: self.fence.id(), whereabouts: whereabouts.clone(), level };
        self.ledger.note(&Record::Started(start));
    }

    /// Records the end, and only then dismisses the guardian, the only other process that knows it.
    fn note_end(&mut self, end: End) {
        self.ledger.note(&Record::Ended { instance: self.fence.id(), end });
        self.leaving = self.fence.dismiss();
        self.is_over = true;
    }

    fn reap_guardian(&mut self) {
        if let Some(leaving) = self.leaving.take() {
            leaving.reap();
        }
    }
}

impl AsFd for Instance {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.live().fence.as_fd()
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if let Some(live) = self.live.take().filter(|live| !live.is_over) {
            live.fence.stop(Step::Closing);
            reap_later(Box::new(live));
        }
    }
}
