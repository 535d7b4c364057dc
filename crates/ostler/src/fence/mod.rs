//! The fence: the owner's line to one guardian.
//!
//! Its descriptor polls as readable when there is something to hear, so that it fits under any loop.
//! When it is closed, the guardian ends everything by itself.

mod outcome;
mod start;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ExitStatus};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

pub use outcome::{Outcome, Proof, Refusal, Residue};
pub(crate) use start::FenceOrder;
pub use start::{Descriptors, GuardianProgram, ServerStdio, StartError, Terms};

use crate::cgroup::Leaf;
use crate::guardian::wire::{Conn, Order, Received, Report};
use crate::id::InstanceId;
use crate::ladder::Step;
use crate::level::Level;
use crate::limits::Limits;
use crate::remains::{self, Remains};

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
    /// The guardian was killed; what it has left must be ended without it.
    GuardianLost,
}

/// One server with all that it causes.
#[derive(Debug)]
pub(crate) struct Fence {
    id: InstanceId,
    conn: Conn,
    /// Taken when it has been waited for.
    guardian: Option<Child>,
    /// Where the leaf is, if one could be made.
    leaf: Option<PathBuf>,
    limits: Limits,
}

impl Fence {
    /// Whose fence this is.
    pub(crate) fn id(&self) -> InstanceId {
        self.id
    }

    /// The guardian's pid, as long as it has not been waited for.
    pub(crate) fn guardian_pid(&self) -> Option<i32> {
        self.guardian.as_ref().map(|guardian| guardian.id().cast_signed())
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Begins the way down at `step`. Later orders can only shorten it.
    pub(crate) fn stop(&self, step: Step) {
        self.order(&Order::Stop(step));
    }

    /// Takes the next step down without waiting for its time.
    pub(crate) fn hurry(&self) {
        self.order(&Order::Hurry);
    }

    /// Lets the guardian go, and waits for it no longer than that should take.
    pub(crate) fn dismiss(&mut self) {
        self.order(&Order::Dismiss);
        let Some(mut guardian) = self.guardian.take() else { return };
        let handle = pidfd_open(Pid::from_child(&guardian), PidfdFlags::empty());
        if handle.is_ok_and(|handle| readable(&handle, self.limits.control).unwrap_or(false)) {
            // An error means that the host has waited for it already.
            let _ = guardian.wait();
        }
    }

    /// What has happened since; never waits.
    pub(crate) fn next_event(&mut self) -> io::Result<Option<Event>> {
        Ok(Some(match self.conn.receive()? {
            Received::NothingYet => return Ok(None),
            Received::Closed => Event::GuardianLost,
            Received::Message(Report::Started { pid, level }) => {
                if level < Level::Leaf {
                    self.leaf = None;
                }
                Event::Started { pid, level }
            }
            Received::Message(Report::Refused(refusal)) => Event::Refused(refusal),
            Received::Message(Report::Exited(raw)) => Event::Exited(ExitStatus::from_raw(raw)),
            Received::Message(Report::Remaining(residue)) => Event::Remaining(residue),
            Received::Message(Report::Empty(proof)) => Event::Empty(proof),
        }))
    }

    /// Ends what a killed guardian has left. Waits at most for [`Limits::proof`].
    pub(crate) fn rescue(&self) -> Outcome {
        let one = Remains { id: self.id, leaf: self.leaf.clone().map(Leaf::at) };
        let outcome = remains::end(&[one], self.limits.proof).remove(&self.id);
        outcome.unwrap_or(Outcome::Unverified(Residue::Unwatched))
    }

    fn order(&self, order: &Order) {
        // A guardian that can't be told is dead, which shows as the end of the socket.
        let _ = self.conn.send(order, &[]);
    }
}

impl AsFd for Fence {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.conn.as_fd()
    }
}

/// Whether `fd` becomes readable within `limit`.
pub(crate) fn readable(fd: &impl AsFd, limit: Duration) -> io::Result<bool> {
    let limit = Timespec::try_from(limit).map_err(io::Error::other)?;
    match poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&limit)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(true),
        Err(error) => Err(error.into()),
    }
}
