//! The fence: the owner's side of one instance.
//!
//! A [`Fence`] holds one server and all that it causes, through a [guardian](crate::guardian) of
//! its own. It needs no runtime: its descriptor polls as readable when [`Fence::next_event`] has
//! something to say, so that it fits under any loop. Dropping it only closes the control socket;
//! the guardian does the rest.

mod graveyard;
mod outcome;
mod rescue;
mod start;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

pub use outcome::{Outcome, Proof, Refusal, Residue};
pub use start::{Descriptors, GuardianProgram, ServerStdio, StartError, Terms};

use crate::cgroup::Leaf;
use crate::guardian::wire::{Conn, Order, Received, Report};
use crate::id::InstanceId;
use crate::ladder::Step;
use crate::level::Level;
use crate::limits::Limits;

/// What happens to an instance.
#[derive(Debug)]
pub enum Event {
    /// The server runs.
    Started {
        /// Its pid, as a name for people. Only the guardian may signal it.
        pid: i32,
        /// How firmly it is held.
        level: Level,
    },
    /// The server was not started; nothing else will happen.
    Refused(Refusal),
    /// The server itself has ended; what it caused is ended now.
    Exited(ExitStatus),
    /// KILL has not emptied the fence within its limit; the guardian goes on.
    Remaining(Residue),
    /// Nothing is left; nothing else will happen.
    Empty(Proof),
    /// The guardian was killed. [`Fence::rescue`] ends what it has left.
    GuardianLost,
}

/// One server with all that it causes.
#[derive(Debug)]
pub struct Fence {
    id: InstanceId,
    conn: Conn,
    /// Taken when it has been waited for, or left to the graveyard.
    guardian: Option<Child>,
    /// Where the leaf is, if one could be made.
    leaf: Option<Leaf>,
    limits: Limits,
}

impl Fence {
    /// Whose fence this is.
    pub fn id(&self) -> InstanceId {
        self.id
    }

    /// The guardian's pid, as a name for people.
    pub fn guardian_pid(&self) -> Option<u32> {
        self.guardian.as_ref().map(Child::id)
    }

    /// Begins the way down at `step`. May be repeated: later orders can only shorten it. The
    /// caller closes the server's stdin beforehand, if it holds the other end.
    pub fn stop(&self, step: Step) {
        self.order(&Order::Stop(step));
    }

    /// Takes the next step down without waiting for its time.
    pub fn hurry(&self) {
        self.order(&Order::Hurry);
    }

    /// What has happened since; never waits.
    pub fn next_event(&mut self) -> io::Result<Option<Event>> {
        if self.guardian.is_none() {
            return Ok(None);
        }
        let event = match self.conn.receive()? {
            Received::NothingYet => return Ok(None),
            Received::Closed => Event::GuardianLost,
            Received::Message(Report::Started { pid, level }) => Event::Started { pid, level },
            Received::Message(Report::Refused(refusal)) => Event::Refused(refusal),
            Received::Message(Report::Exited(raw)) => Event::Exited(ExitStatus::from_raw(raw)),
            Received::Message(Report::Remaining(residue)) => Event::Remaining(residue),
            Received::Message(Report::Empty(proof)) => {
                self.order(&Order::Dismiss);
                Event::Empty(proof)
            }
        };
        if matches!(event, Event::Refused(_) | Event::Empty(_) | Event::GuardianLost) {
            self.bury_guardian();
        }
        Ok(Some(event))
    }

    /// Waits for the next event, at most for `limit`.
    pub fn wait_event(&mut self, limit: Duration) -> io::Result<Option<Event>> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(event) = self.next_event()? {
                return Ok(Some(event));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if self.guardian.is_none() || left.is_zero() || !readable(self, left)? {
                return Ok(None);
            }
        }
    }

    /// Goes the whole way down from `step` and says how it ended. Bounded by the limits that the
    /// fence was started with; what is not gone by then is still being ended by the guardian.
    pub fn close(mut self, step: Step) -> io::Result<Outcome> {
        self.stop(step);
        let deadline = Instant::now() + self.limits.grace + self.limits.proof * 2;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.wait_event(left)? {
                Some(Event::Empty(proof)) => return Ok(Outcome::Gone(proof)),
                Some(Event::GuardianLost) => return Ok(self.rescue()),
                Some(Event::Remaining(residue)) => return Ok(Outcome::Unverified(residue)),
                Some(Event::Refused(_)) => return Ok(Outcome::Gone(Proof::NoChild)),
                Some(Event::Started { .. } | Event::Exited(_)) => {}
                None => return Ok(Outcome::Unverified(Residue::Processes(Vec::new()))),
            }
        }
    }

    /// Ends what a killed guardian has left. Waits at most for [`Limits::proof`].
    pub fn rescue(self) -> Outcome {
        rescue::end(self.id, self.leaf.as_ref(), self.limits.proof)
    }

    fn order(&self, order: &Order) {
        // A guardian that can't be told is dead, which shows as the end of the socket.
        let _ = self.conn.send(order, &[]);
    }

    /// The guardian is about to leave: waits for it, and no longer than it should take.
    fn bury_guardian(&mut self) {
        let Some(mut guardian) = self.guardian.take() else { return };
        let handle = pidfd_open(Pid::from_child(&guardian), PidfdFlags::empty());
        if handle.is_ok_and(|handle| readable(&handle, self.limits.control).unwrap_or(false)) {
            // An error means that the host has waited for it already.
            let _ = guardian.wait();
        } else {
            graveyard::bury(guardian);
        }
    }
}

impl AsFd for Fence {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.conn.as_fd()
    }
}

impl Drop for Fence {
    fn drop(&mut self) {
        if let Some(guardian) = self.guardian.take() {
            graveyard::bury(guardian);
        }
    }
}

fn readable(fd: &impl AsFd, limit: Duration) -> io::Result<bool> {
    let limit = Timespec::try_from(limit).map_err(io::Error::other)?;
    match poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&limit)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(true),
        Err(error) => Err(error.into()),
    }
}
