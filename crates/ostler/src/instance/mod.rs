//! One running copy of a server, on record from before its start until the proof of its end.

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

/// A server with all that it causes.
///
/// It needs no runtime: its descriptor polls as readable when [`Instance::next_event`] has something
/// to say. Dropping it tells its guardian to end it, and never waits.
#[derive(Debug)]
pub struct Instance {
    /// Taken when it is dropped.
    living: Option<Living>,
}

/// What an instance is made of.
#[derive(Debug)]
pub(crate) struct Living {
    hold: Fence,
    ledger: Arc<Ledger>,
    limits: Limits,
    /// As it was told at its start.
    whereabouts: Option<Whereabouts>,
    /// There is nothing more to hear.
    is_over: bool,
    /// Its guardian, once it is told that it may go.
    leaving: Option<Leaving>,
}

impl Instance {
    fn new(hold: Fence, ledger: Arc<Ledger>, limits: Limits) -> Self {
        let living =
            Living { hold, ledger, limits, whereabouts: None, is_over: false, leaving: None };
        Self { living: Some(living) }
    }

    /// Which one it is.
    pub fn id(&self) -> InstanceId {
        self.living().hold.id()
    }

    /// Where it is, once it has started.
    pub fn whereabouts(&self) -> Option<&Whereabouts> {
        self.living().whereabouts.as_ref()
    }

    /// The limits that it was started with.
    #[cfg(feature = "keeper")]
    pub(crate) fn limits(&self) -> Limits {
        self.living().limits
    }

    /// Begins the way down at `step`. May be repeated: later orders can only shorten it. The
    /// caller closes the server's stdin beforehand, if it holds the other end.
    pub fn stop(&self, step: Step) {
        self.living().hold.stop(step);
    }

    /// Takes the next step down without waiting for its time.
    pub fn hurry(&self) {
        self.living().hold.hurry();
    }

    /// What has happened since; never waits.
    pub fn next_event(&mut self) -> io::Result<Option<Event>> {
        self.living_mut().next_event()
    }

    /// Waits for the next event, at most for `limit`.
    pub fn wait_event(&mut self, limit: Duration) -> io::Result<Option<Event>> {
        self.living_mut().wait_event(limit)
    }

    /// Goes the whole way down from `step` and says how it ended. Bounded by the limits that it was
    /// started with; what is not gone by then is still being ended by its guardian.
    pub fn close(mut self, step: Step) -> io::Result<Outcome> {
        self.stop(step);
        self.living_mut().await_outcome()
    }

    /// Ends what is left after [`Event::GuardianLost`]. Waits at most for [`Limits::proof`] and, if it
    /// has had containers, for [`Limits::containers`].
    pub fn rescue(mut self) -> Outcome {
        let living = self.living_mut();
        let outcome = living.rescue();
        living.see_off();
        outcome
    }

    /// Takes leave of an instance that has ended: what remains is a guardian on its way out, if any.
    pub fn part(mut self) -> Option<Leaving> {
        self.living_mut().leaving.take()
    }
}

#[expect(clippy::expect_used, reason = "only drop takes it, and nothing is called after that")]
impl Instance {
    fn living(&self) -> &Living {
        self.living.as_ref().expect("not dropped yet")
    }

    fn living_mut(&mut self) -> &mut Living {
        self.living.as_mut().expect("not dropped yet")
    }
}

impl Living {
    fn next_event(&mut self) -> io::Result<Option<Event>> {
        if self.is_over {
            return Ok(None);
        }
        let event = self.hold.next_event()?;
        match &event {
            Some(Event::Started { whereabouts, level }) => self.note_start(whereabouts, *level),
            Some(Event::Refused(_)) => {
                // A guardian that has refused early has not seen what was made for its server.
                if let Some((_, ways)) = self.hold.ways() {
                    remove_files(ways, self.hold.id());
                }
                self.note_end(End::Refused);
            }
            Some(Event::Empty(proof)) => self.note_end(End::Gone(proof.clone())),
            Some(Event::Remaining(residue)) => {
                let (instance, end) = (self.hold.id(), End::Unverified(residue.clone()));
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
                self.see_off();
                return Ok(Some(event));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if self.is_over || left.is_zero() || !readable(&self.hold, left)? {
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
                    self.see_off();
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
        let outcome = process::rescue(&mut self.hold);
        self.note_end(End::from(&outcome));
        outcome
    }

    fn note_start(&mut self, whereabouts: &Whereabouts, level: Option<Level>) {
        self.whereabouts = Some(whereabouts.clone());
        let start = Start { instance: self.hold.id(), whereabouts: whereabouts.clone(), level };
        self.ledger.note(&Record::Started(start));
    }

    /// First on record, then the guardian may go: it is the only other witness.
    fn note_end(&mut self, end: End) {
        self.ledger.note(&Record::Ended { instance: self.hold.id(), end });
        self.leaving = self.hold.dismiss();
        self.is_over = true;
    }

    fn see_off(&mut self) {
        if let Some(leaving) = self.leaving.take() {
            leaving.reap();
        }
    }
}

impl AsFd for Instance {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.living().hold.as_fd()
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if let Some(living) = self.living.take().filter(|living| !living.is_over) {
            living.hold.stop(Step::Closing);
            reap_later(Box::new(living));
        }
    }
}
