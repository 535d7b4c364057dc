//! The fence: the owner's line to one guardian.
//!
//! Its descriptor polls as readable when there is something to hear, so that it fits under any loop.
//! When it is closed, the guardian ends everything by itself.

mod leaving;
mod start;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};

pub use leaving::Leaving;
pub use start::{Pipe, ServerStdio, StartError};

use crate::cgroup::Leaf;
use crate::containers::Ways;
use crate::event::Event;
use crate::id::InstanceId;
use crate::ladder::Step;
use crate::level::Level;
use crate::limits::Limits;
use crate::outcome::{Outcome, Proof, Residue};
use crate::poll::readable;
use crate::proctable::Identity;
use crate::remains::{self, Remains};
use crate::terms::GuardianProgram;
use crate::whereabouts::Whereabouts;
use crate::wire::guardian::{Order, Report};
use crate::wire::{Conn, Received};

/// One server with all that it causes.
#[derive(Debug)]
pub(crate) struct Fence {
    id: InstanceId,
    conn: Conn,
    /// Taken when it has been waited for.
    guardian: Option<Child>,
    /// Where the leaf is, if one could be made.
    leaf: Option<PathBuf>,
    /// The cgroups that may have been made to limit it.
    cgroups: Vec<PathBuf>,
    /// Why its containers can't be followed; taken when it is told.
    unfollowed: Option<String>,
    /// The level that was asked for, or the better one that the server has.
    level: Level,
    /// Whether the server has started.
    has_started: bool,
    /// The server's ways to containers, and where it is noted that they were used.
    ways: Ways,
    book: Option<PathBuf>,
    /// What its guardian is, which is also to guard what ostler itself has to run.
    program: GuardianProgram,
    /// A pidfd of the init at `strict`, once the server has started.
    init: Option<OwnedFd>,
    limits: Limits,
}

impl Fence {
    fn started(&mut self, pid: i32, level: Level) -> Event {
        if level < Level::Leaf {
            self.leaf = None;
        }
        (self.has_started, self.level) = (true, level);
        self.init = self.conn.take_descriptors().pop();
        let guardian = self.guardian.as_ref().map_or(0, |guardian| guardian.id().cast_signed());
        // Who is gone already needs no identity: nobody is ever signalled by these.
        let identity = |pid| Identity::of(pid).unwrap_or(Identity { pid, start: 0 });
        let whereabouts =
            Whereabouts::Process { guardian: identity(guardian), server: identity(pid) };
        Event::Started { whereabouts, level: Some(level) }
    }

    /// The kernel ends it with its init, and the init with the guardian.
    fn has_namespace_ended(&self) -> bool {
        self.init.as_ref().is_some_and(|init| readable(init, self.limits.proof).unwrap_or(false))
    }

    fn order(&self, order: &Order) {
        // A guardian that can't be told is dead, which shows as the end of the socket.
        let _ = self.conn.send(order, &[]);
    }

    /// Which one it is.
    pub(crate) fn id(&self) -> InstanceId {
        self.id
    }

    /// Begins the way down at `step`. Later orders can only shorten it.
    pub(crate) fn stop(&self, step: Step) {
        self.order(&Order::Stop(step));
    }

    /// Takes the next step down without waiting for its time.
    pub(crate) fn hurry(&self) {
        self.order(&Order::Hurry);
    }

    /// What has happened since; never waits.
    pub(crate) fn next_event(&mut self) -> io::Result<Option<Event>> {
        if let Some(reason) = self.unfollowed.take_if(|_| self.has_started) {
            return Ok(Some(Event::Unfollowed(reason)));
        }
        Ok(Some(match self.conn.receive()? {
            Received::NothingYet => return Ok(None),
            Received::Closed => Event::GuardianLost,
            Received::Message(Report::Started { pid, level }) => self.started(pid, level),
            Received::Message(Report::Refused(refusal)) => Event::Refused(refusal),
            Received::Message(Report::Exited(raw)) => Event::Exited(ExitStatus::from_raw(raw)),
            Received::Message(Report::Remaining(residue)) => Event::Remaining(residue),
            Received::Message(Report::Exceeded(excess)) => Event::Exceeded(excess),
            Received::Message(Report::Removed(container)) => Event::Removed(container),
            Received::Message(Report::Clearing(state)) => Event::Clearing(state),
            Received::Message(Report::Empty(proof)) => Event::Empty(proof),
        }))
    }

    /// Lets go of it once its end is on record. Never waits: the guardian that leaves only now is returned.
    pub(crate) fn dismiss(&mut self) -> Option<Leaving> {
        self.order(&Order::Dismiss);
        Leaving::new(self.guardian.take()?, self.limits.control)
    }

    /// Ends the processes that are left after [`Event::GuardianLost`].
    pub(crate) fn end_processes(&mut self) -> Outcome {
        let leaf = self.leaf.as_ref().and_then(|path| Leaf::find(path, self.id));
        let one = Remains { id: self.id, leaf, cgroups: self.cgroups.clone() };
        let outcome = remains::end(&[one], self.limits.proof).remove(&self.id);
        match outcome.unwrap_or(Outcome::Unverified(Residue::Unwatched)) {
            Outcome::Unverified(Residue::Unwatched) if self.has_namespace_ended() => {
                Outcome::Gone(Proof::EndedNamespace)
            }
            outcome => outcome,
        }
    }

    /// The server's ways to containers, and where it is noted that they were used. `None`: it is on no record.
    pub(crate) fn ways(&self) -> Option<(&Path, &Ways)> {
        Some((self.book.as_deref()?, &self.ways))
    }

    /// The level that was asked for, or the better one that the server has.
    pub(crate) fn level(&self) -> Level {
        self.level
    }

    /// How long its end may take.
    pub(crate) fn limits(&self) -> Limits {
        self.limits
    }

    /// What its guardian is.
    pub(crate) fn program(&self) -> &GuardianProgram {
        &self.program
    }
}

impl AsFd for Fence {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.conn.as_fd()
    }
}
