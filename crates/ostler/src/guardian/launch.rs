//! Starts the server: fork, setup in the child, exec.
//!
//! The child enters its cgroups, becomes a session leader, restores ignored signals, sets its parent-death signal and
//! executes the command. A close-on-exec pipe tells the guardian the result: the exec closes it without data, a
//! failure writes its reason first.

use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::io::{Errno, retry_on_intr};
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, getppid, set_parent_process_death_signal, setsid, waitpid,
};

use super::fork::{ChildCgroup, ForkResult, close, fork, ignore, leave};
use crate::cgroup::{Control, Leaf};
use crate::id::INSTANCE_VARIABLE;
use crate::outcome::Refusal;
use crate::signals::Ignored;
use crate::terms::Descriptors;
use crate::wire::guardian::Launch;

/// The server's standard streams.
pub(super) struct Stdio {
    pub(super) stdin: OwnedFd,
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
}

/// Descriptors above 2 that this process inherited because the owner had not set close-on-exec on them.
///
/// The guardian keeps none of them, because it would hold foreign pipes open for as long as it lives.
pub(super) struct InheritedFds(Vec<RawFd>);

impl InheritedFds {
    /// Lists the open descriptors. Call it before the guardian opens any of its own.
    pub(super) fn scan() -> io::Result<Self> {
        let names = fs::read_dir("/proc/self/fd")?.flatten().map(|entry| entry.file_name());
        let mut fds: Vec<RawFd> = names.filter_map(|name| name.to_str()?.parse().ok()).collect();
        // The list contains the descriptor of /proc/self/fd itself, which is closed by now.
        let is_open = |fd: RawFd| fs::symlink_metadata(format!("/proc/self/fd/{fd}")).is_ok();
        fds.retain(|fd| *fd > libc::STDERR_FILENO && is_open(*fd));
        Ok(Self(fds))
    }

    fn close(self) {
        close(self.0);
    }
}

/// Everything the launch of a server needs.
pub(super) struct ServerStart<'a> {
    pub(super) orders: &'a Launch,
    pub(super) leaf: Option<&'a Leaf>,
    pub(super) stdio: Stdio,
    pub(super) inherited: InheritedFds,
    /// Signals that were ignored when the guardian started; the server ignores them as well.
    pub(super) ignored: Ignored,
}

impl ServerStart<'_> {
    /// Starts the server inside its leaf, as a child of this process.
    pub(super) fn launch(self) -> Result<Pid, Refusal> {
        let Self { orders, leaf, stdio, inherited, ignored } = self;
        launch(orders, leaf, stdio, inherited, ignored)
    }

    /// Closes the inherited descriptors without a launch: the init launches the server.
    pub(super) fn close_inherited(self) {
        self.inherited.close();
    }
}

/// Message from a child that failed before or in the exec.
type Failure = Option<Refusal>;

fn launch(
    orders: &Launch,
    leaf: Option<&Leaf>,
    stdio: Stdio,
    inherited: InheritedFds,
    ignored: Ignored,
) -> Result<Pid, Refusal> {
    let mut command = command_of(orders, stdio)?;
    let inherited = match orders.descriptors {
        Descriptors::Inherited => Some(inherited),
        Descriptors::StdioOnly => {
            inherited.close();
            None
        }
    };
    let (failure, writer) = io::pipe().map_err(Refusal::guardian)?;
    let guardian = getpid();
    match fork(0, leaf).map_err(Refusal::guardian)? {
        ForkResult::Child(cgroup) => {
            let prepared = prepare(cgroup, leaf, &orders.controls, ignored, guardian);
            // `exec` returns only if it fails.
            let refusal =
                prepared.err().unwrap_or_else(|| Refusal::exec(&orders.spec, &command.exec()));
            send_failure(writer, refusal);
            leave()
        }
        ForkResult::Parent { child } => {
            drop((writer, command));
            inherited.into_iter().for_each(InheritedFds::close);
            match await_exec(failure) {
                None => Ok(child),
                Some(refusal) => {
                    // The child exits right after it has sent the refusal.
                    let _ = retry_on_intr(|| waitpid(Some(child), WaitOptions::empty()));
                    Err(refusal)
                }
            }
        }
    }
}

fn command_of(orders: &Launch, stdio: Stdio) -> Result<Command, Refusal> {
    let spec = &orders.spec;
    let mut command = Command::new(&spec.program);
    command
        .args(&spec.args)
        .env_clear()
        .envs(spec.env.iter().map(|(name, value)| (name, value)))
        .env(INSTANCE_VARIABLE, orders.id.to_string())
        .stdin(stdio.stdin)
        .stdout(stdio.stdout)
        .stderr(stdio.stderr);
    if let Some(cwd) = &spec.cwd {
        let usable = fs::metadata(cwd).and_then(|found| {
            found.is_dir().then_some(()).ok_or_else(|| io::ErrorKind::NotADirectory.into())
        });
        usable.map_err(|error| Refusal::working_directory(cwd, &error))?;
        command.current_dir(cwd);
    }
    Ok(command)
}

/// Sets up the child before the exec.
fn prepare(
    cgroup: ChildCgroup,
    leaf: Option<&Leaf>,
    controls: &[Control],
    ignored: Ignored,
    guardian: Pid,
) -> Result<(), Refusal> {
    if let (ChildCgroup::Outside, Some(leaf)) = (cgroup, leaf) {
        leaf.enter().map_err(Refusal::leaf)?;
    }
    controls.iter().try_for_each(Control::enter).map_err(Refusal::leaf)?;
    let guardian_error = |errno: Errno| Refusal::guardian(errno.into());
    setsid().map_err(guardian_error)?;
    ignore(ignored);
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(guardian_error)?;
    // The death signal does not fire for a guardian that died before it was set.
    if getppid() == Some(guardian) { Ok(()) } else { Err(guardian_error(Errno::SRCH)) }
}

fn send_failure(mut writer: io::PipeWriter, refusal: Refusal) {
    let failure: Failure = Some(refusal);
    // If the write fails, the guardian sees a server that exits at once.
    let _ = postcard::to_stdvec(&failure).map(|bytes| writer.write_all(&bytes));
}

/// Waits until the exec closes the pipe (`None`) or the child sends why it failed.
fn await_exec(mut failure: io::PipeReader) -> Failure {
    let mut bytes = Vec::new();
    let _ = failure.read_to_end(&mut bytes);
    postcard::from_bytes(&bytes).ok().flatten()
}
