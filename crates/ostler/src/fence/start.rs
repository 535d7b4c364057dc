//! Starting an instance.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use rustix::net::sockopt::{Timeout, set_socket_timeout};

use super::Fence;
use crate::cgroup::{NoControl, NoLeaf};
use crate::containers::{Engine, NoEndpoint, Ways};
use crate::id::InstanceId;
use crate::ledger::{Intent, NoLedger};
use crate::level::Level;
use crate::outcome::Refusal;
use crate::roles::GUARDIAN;
use crate::terms::{GuardianProgram, Terms};
use crate::wire::guardian::{Launch, Order, Report};
use crate::wire::{Conn, Received};

/// The server's own descriptors. They are closed here once the guardian has them.
#[derive(Debug)]
pub struct ServerStdio {
    /// What it reads.
    pub stdin: OwnedFd,
    /// What it writes.
    pub stdout: OwnedFd,
    /// Where it complains.
    pub stderr: OwnedFd,
}

impl ServerStdio {
    /// Fresh pipes, and our ends of them.
    pub fn piped() -> io::Result<(Self, Pipe)> {
        let (stdin, our_stdin) = io::pipe()?;
        let (our_stdout, stdout) = io::pipe()?;
        let (our_stderr, stderr) = io::pipe()?;
        let theirs = Self { stdin: stdin.into(), stdout: stdout.into(), stderr: stderr.into() };
        Ok((theirs, Pipe { stdin: our_stdin, stdout: our_stdout, stderr: our_stderr }))
    }
}

/// The line to a server: our ends of its stdin, stdout and stderr.
///
/// They are ordinary pipes that turn into `OwnedFd` and so into those of any runtime. Dropping `stdin`
/// is what ends the server's input.
#[derive(Debug)]
pub struct Pipe {
    /// What we write, it reads.
    pub stdin: io::PipeWriter,
    /// What it writes, we read.
    pub stdout: io::PipeReader,
    /// Its complaints. If nobody reads them it stops writing, and working.
    pub stderr: io::PipeReader,
}

/// Why no attempt was made to start a server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The machine does not offer the level that was asked for.
    #[error("containment '{0}' is not available here")]
    Containment(Level, #[source] NoLeaf),
    /// The machine does not let us enforce a limit that was asked for.
    #[error("a limit on {0} can't be enforced here")]
    Limit(&'static str, #[source] NoControl),
    /// Nobody can say which engine its containers would be in.
    #[error("cannot find its container engine; choose another one, or off")]
    Engine(#[source] NoEndpoint),
    /// This program can't follow containers.
    #[error(
        "engine '{0}' can't be had: this program was built without ostler's feature 'engine'; choose engine \
         'off', or build it with that feature"
    )]
    WithoutEngine(Engine),
    /// There is no place for its own socket to that engine.
    #[error(
        "no directory can hold its socket to a container engine; set OSTLER_RUNTIME_DIR to one"
    )]
    Door(#[source] io::Error),
    /// The program runs as a guardian and does not know it.
    #[error("call ostler::guardian::run_if_asked() first in main")]
    NoRole,
    /// What is not written down is not started.
    #[error(transparent)]
    Ledger(NoLedger),
    /// The guardian could not be started.
    #[error("the guardian could not be started")]
    Guardian(#[source] io::Error),
    /// The guardian left before it was told what to start, and said why.
    #[error(transparent)]
    Refused(Refusal),
    /// The guardian died before it knew what to start.
    #[error("cannot send the start request to the guardian")]
    Control(#[source] io::Error),
    /// It names a backend that this program does not have.
    #[error("there is no backend '{0}'")]
    NoBackend(String),
    /// This backend can't start what it was given.
    #[error("the backend '{0}' starts nothing of this kind")]
    OtherTarget(&'static str),
    /// Another backend could not start it, and why.
    #[error("{0}")]
    Other(String),
}

impl Fence {
    /// Starts a guardian, which leaves again if it is told nothing.
    pub(crate) fn spawn(id: InstanceId, name: &str, terms: &Terms) -> Result<Self, StartError> {
        // A host that forgot the role would start itself for ever.
        if std::env::args_os().next().is_some_and(|name| name == GUARDIAN) {
            return Err(StartError::NoRole);
        }
        Self::spawn_guarded(id, name, terms)
    }

    /// The same from a process that may itself be a guardian or a porter.
    pub(crate) fn spawn_guarded(
        id: InstanceId,
        name: &str,
        terms: &Terms,
    ) -> Result<Self, StartError> {
        let spawned = spawn_guardian(id, name, terms);
        let (conn, guardian) = spawned.map_err(StartError::Guardian)?;
        let guardian = Some(guardian);
        let (leaf, cgroups, ways, book) = (None, Vec::new(), Ways::default(), None);
        let (limits, unfollowed) = (terms.limits, None);
        Ok(Self {
            unfollowed,
            has_started: false,
            id,
            conn,
            guardian,
            leaf,
            cgroups,
            ways,
            book,
            program: terms.guardian.clone(),
            level: terms.containment.minimum(),
            init: None,
            limits,
        })
    }

    /// Something to say once the server has started.
    pub(crate) fn remark(&mut self, unfollowed: Option<String>) {
        self.unfollowed = unfollowed;
    }

    /// Tells the guardian what to start, now that the intent is on record.
    pub(crate) fn tell(
        &mut self,
        launch: Launch,
        intent: &Intent,
        stdio: ServerStdio,
    ) -> Result<(), StartError> {
        self.leaf.clone_from(&intent.leaf);
        self.cgroups.clone_from(&intent.cgroups);
        self.ways.clone_from(&intent.ways);
        self.book.clone_from(&launch.book);
        let ServerStdio { stdin, stdout, stderr } = stdio;
        let fds = [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
        let told = self.conn.send(&Order::Start(Box::new(launch)), &fds);
        told.map_err(|error| match self.conn.receive() {
            // It may have left a moment ago: what it said last explains more than a closed socket.
            Ok(Received::Message(Report::Refused(refusal))) => StartError::Refused(refusal),
            _ => StartError::Control(error),
        })
    }
}

fn spawn_guardian(id: InstanceId, name: &str, terms: &Terms) -> io::Result<(Conn, Child)> {
    let (conn, theirs) = Conn::pair()?;
    set_socket_timeout(&conn, Timeout::Send, Some(terms.limits.control))?;
    // By its link in /proc it is the same file even after an upgrade replaced the name.
    let program = match &terms.guardian {
        GuardianProgram::Myself => "/proc/self/exe".as_ref(),
        GuardianProgram::At(path) => path.as_path(),
    };
    // Nothing of the server's environment may reach the guardian's loader.
    let guardian = Command::new(program)
        .arg0(GUARDIAN)
        .args([std::process::id().to_string(), id.to_string(), name.to_owned()])
        .env_clear()
        .stdin(theirs)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    Ok((conn, guardian))
}
