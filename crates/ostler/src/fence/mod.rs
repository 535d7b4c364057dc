//! The fence: the owner's handle of one guardian.
//!
//! It sends orders over the control socket and turns the guardian's reports into events. Its descriptor becomes
//! readable when there is an event, so it fits into any event loop. Dropping the fence closes the socket, and the
//! guardian ends the instance on its own.

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
use crate::wire::guardian::{GuardianOrder, GuardianReport};
use crate::wire::{Conn, Received};

/// One server with its process tree and containers.
#[derive(Debug)]
pub(crate) struct Fence {
    id: InstanceId,
    conn: Conn,
    /// `None` once it was dismissed.
    guardian: Option<Child>,
    /// Path of the leaf, if one may exist.
    leaf: Option<PathBuf>,
    /// Further cgroups that may exist, for resource limits.
    cgroups: Vec<PathBuf>,
    /// Why the server's containers can't be tracked; taken when the event is reported.
    unfollowed: Option<String>,
    /// The minimum level; once the server has started, its actual level.
    level: Level,
    has_started: bool,
    ways: Ways,
    /// The owner's ledger directory, which also holds the notes. `None`: the launch is not recorded.
    book: Option<PathBuf>,
    /// Program of the guardian, and of those that guard ostler's own podman commands.
    program: GuardianProgram,
    /// At `strict`, a pidfd of the init, once the server has started.
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
        // A process that has exited already gets start time 0: no signal is ever sent by these identities.
        let identity = |pid| Identity::of(pid).unwrap_or(Identity { pid, start: 0 });
        let whereabouts =
            Whereabouts::Process { guardian: identity(guardian), server: identity(pid) };
        Event::Started { whereabouts, level: Some(level) }
    }

    /// Waits for the end of the init, with which the kernel kills every process of the namespace.
    fn has_namespace_ended(&self) -> bool {
        self.init.as_ref().is_some_and(|init| readable(init, self.limits.proof).unwrap_or(false))
    }

    fn order(&self, order: &GuardianOrder) {
        // A failed send means that the guardian is dead, which shows as the end of the socket.
        let _ = self.conn.send(order, &[]);
    }

    pub(crate) fn id(&self) -> InstanceId {
        self.id
    }

    /// Stops the instance, from `step` of the ladder on. Later orders can only shorten the stop.
    pub(crate) fn stop(&self, step: Step) {
        self.order(&GuardianOrder::Stop(step));
    }

    /// Takes the next step of the ladder without waiting for its time.
    pub(crate) fn hurry(&self) {
        self.order(&GuardianOrder::Hurry);
    }

    /// Returns the next event if there is one; never waits.
    pub(crate) fn next_event(&mut self) -> io::Result<Option<Event>> {
        if let Some(reason) = self.unfollowed.take_if(|_| self.has_started) {
            return Ok(Some(Event::Unfollowed(reason)));
        }
        Ok(Some(match self.conn.receive()? {
            Received::NothingYet => return Ok(None),
            Received::Closed => Event::GuardianLost,
            Received::Message(GuardianReport::Started { pid, level }) => self.started(pid, level),
            Received::Message(GuardianReport::Refused(refusal)) => Event::Refused(refusal),
            Received::Message(GuardianReport::Exited(raw)) => {
                Event::Exited(ExitStatus::from_raw(raw))
            }
            Received::Message(GuardianReport::Remaining(residue)) => Event::Remaining(residue),
            Received::Message(GuardianReport::Exceeded(excess)) => Event::Exceeded(excess),
            Received::Message(GuardianReport::Removed(container)) => Event::Removed(container),
            Received::Message(GuardianReport::Clearing(state)) => Event::Clearing(state),
            Received::Message(GuardianReport::Empty(proof)) => Event::Empty(proof),
        }))
    }

    /// Dismisses the guardian, once its proof is recorded. Never waits: the caller reaps the guardian.
    pub(crate) fn dismiss(&mut self) -> Option<Leaving> {
        self.order(&GuardianOrder::Dismiss);
        Leaving::new(self.guardian.take()?, self.limits.control)
    }

    /// Kills the processes that are left after [`Event::GuardianLost`].
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

    /// The ledger directory and the server's ways to containers. `None`: the launch is not recorded.
    pub(crate) fn ways(&self) -> Option<(&Path, &Ways)> {
        Some((self.book.as_deref()?, &self.ways))
    }

    /// The minimum level; once the server has started, its actual level.
    pub(crate) fn level(&self) -> Level {
        self.level
    }

    pub(crate) fn limits(&self) -> Limits {
        self.limits
    }

    pub(crate) fn program(&self) -> &GuardianProgram {
        &self.program
    }
}

impl AsFd for Fence {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.conn.as_fd()
    }
}
