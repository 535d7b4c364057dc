//! Starts a guardian and sends it the launch order.

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
use crate::wire::guardian::{GuardianOrder, GuardianReport, Launch};
use crate::wire::{Conn, Received};

/// The server's standard streams. This process closes them once the guardian has them.
#[derive(Debug)]
pub struct ServerStdio {
    /// The server's standard input.
    pub stdin: OwnedFd,
    /// The server's standard output.
    pub stdout: OwnedFd,
    /// The server's standard error.
    pub stderr: OwnedFd,
}

impl ServerStdio {
    /// Creates pipes, and returns the server's ends and ours.
    pub fn piped() -> io::Result<(Self, Pipe)> {
        let (stdin, our_stdin) = io::pipe()?;
        let (our_stdout, stdout) = io::pipe()?;
        let (our_stderr, stderr) = io::pipe()?;
        let theirs = Self { stdin: stdin.into(), stdout: stdout.into(), stderr: stderr.into() };
        Ok((theirs, Pipe { stdin: our_stdin, stdout: our_stdout, stderr: our_stderr }))
    }
}

/// Our ends of a server's standard streams.
///
/// They are ordinary pipes that convert into `OwnedFd`, and so into the pipe types of any runtime. Dropping `stdin` ends
/// the server's input.
#[derive(Debug)]
pub struct Pipe {
    /// The server reads what is written here.
    pub stdin: io::PipeWriter,
    /// The server's standard output.
    pub stdout: io::PipeReader,
    /// The server's standard error. It must be read: a server blocks once the pipe is full.
    pub stderr: io::PipeReader,
}

/// Why a server could not be started, before any attempt to execute it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The machine does not offer the requested level.
    #[error("containment '{0}' is not available here")]
    Containment(Level, #[source] NoLeaf),
    /// This machine can't enforce a requested limit.
    #[error("a limit on {0} can't be enforced here")]
    Limit(&'static str, #[source] NoControl),
    /// ostler can't tell which engine the server's containers would be in.
    #[error("cannot find its container engine; choose another one, or off")]
    Engine(#[source] NoEndpoint),
    /// This program was built without the feature `engine`.
    #[error(
        "engine '{0}' is not available: this program was built without ostler's feature 'engine'; choose engine \
         'off', or build it with that feature"
    )]
    WithoutEngine(Engine),
    /// No directory is suitable for the server's socket to its engine.
    #[error(
        "no directory can hold its socket to a container engine; set OSTLER_RUNTIME_DIR to one that can"
    )]
    Door(#[source] io::Error),
    /// The host did not call [`run_if_asked`](crate::guardian::run_if_asked), so it can't become a guardian.
    #[error("call ostler::guardian::run_if_asked() first in main")]
    NoRole,
    /// The start could not be recorded in the ledger.
    #[error(transparent)]
    Ledger(NoLedger),
    /// The guardian could not be started.
    #[error("the guardian could not be started")]
    Guardian(#[source] io::Error),
    /// The guardian refused before it got the launch order.
    #[error(transparent)]
    Refused(Refusal),
    /// The guardian died before it got the launch order.
    #[error("cannot send the start request to the guardian")]
    Control(#[source] io::Error),
    /// The server names a backend that this program does not have.
    #[error("there is no backend '{0}'")]
    NoBackend(String),
    /// This backend can't start targets of this kind.
    #[error("the backend '{0}' can't start servers of this kind")]
    OtherTarget(&'static str),
    /// Another backend failed to start the server, for this reason.
    #[error("{0}")]
    Other(String),
}

impl Fence {
    /// Spawns a guardian. It exits on its own if it gets no launch order.
    pub(crate) fn spawn(id: InstanceId, name: &str, terms: &Terms) -> Result<Self, StartError> {
        // A host that does not call `run_if_asked` would start itself recursively.
        if std::env::args_os().next().is_some_and(|name| name == GUARDIAN) {
            return Err(StartError::NoRole);
        }
        Self::spawn_guarded(id, name, terms)
    }

    /// The same for a caller that may itself be a guardian or a porter.
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

    /// Sets why containers can't be tracked, to be reported once the server has started.
    pub(crate) fn remark(&mut self, unfollowed: Option<String>) {
        self.unfollowed = unfollowed;
    }

    /// Sends the launch order, after the intent was recorded.
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
        let told = self.conn.send(&GuardianOrder::Start(Box::new(launch)), &fds);
        told.map_err(|error| match self.conn.receive() {
            // The guardian may have refused and exited; its last report explains more than a closed socket.
            Ok(Received::Message(GuardianReport::Refused(refusal))) => StartError::Refused(refusal),
            _ => StartError::Control(error),
        })
    }
}

fn spawn_guardian(id: InstanceId, name: &str, terms: &Terms) -> io::Result<(Conn, Child)> {
    let (conn, theirs) = Conn::pair()?;
    set_socket_timeout(&conn, Timeout::Send, Some(terms.limits.control))?;
    // The link in /proc leads to the running executable even after an upgrade replaced the file.
    let program = match &terms.guardian {
        GuardianProgram::Myself => "/proc/self/exe".as_ref(),
        GuardianProgram::At(path) => path.as_path(),
    };
    // Cleared, so that no variable of the server influences the guardian's dynamic loader.
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
