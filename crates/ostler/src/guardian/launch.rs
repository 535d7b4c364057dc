//! From fork to exec.

use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::io::{Errno, retry_on_intr};
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, getppid, set_parent_process_death_signal, setsid, waitpid,
};

use super::fork::{Birth, Side, close, fork, ignore, leave};
use crate::cgroup::{Control, Leaf};
use crate::id::INSTANCE_VARIABLE;
use crate::outcome::Refusal;
use crate::signals::Ignored;
use crate::terms::Descriptors;
use crate::wire::guardian::Launch;

/// The descriptors that the server gets as its own.
pub(super) struct Stdio {
    pub(super) stdin: OwnedFd,
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
}

/// Descriptors that the owner had open without close-on-exec. The guardian keeps none of them:
/// it would hold other people's pipes open for as long as it lives.
pub(super) struct Inherited(Vec<RawFd>);

impl Inherited {
    /// To be called before the guardian opens anything of its own.
    pub(super) fn look() -> io::Result<Self> {
        let names = fs::read_dir("/proc/self/fd")?.flatten().map(|entry| entry.file_name());
        let mut fds: Vec<RawFd> = names.filter_map(|name| name.to_str()?.parse().ok()).collect();
        // The descriptor of the look itself is closed by now; its number will be used again.
        let is_open = |fd: RawFd| fs::symlink_metadata(format!("/proc/self/fd/{fd}")).is_ok();
        fds.retain(|fd| *fd > libc::STDERR_FILENO && is_open(*fd));
        Ok(Self(fds))
    }

    fn close(self) {
        close(self.0);
    }
}

/// All that a server starts with.
pub(super) struct Start<'a> {
    pub(super) orders: &'a Launch,
    pub(super) leaf: Option<&'a Leaf>,
    pub(super) stdio: Stdio,
    pub(super) inherited: Inherited,
    /// What was ignored when the guardian began is ignored again.
    pub(super) ignored: Ignored,
}

impl Start<'_> {
    /// Starts the server inside its leaf, as a child of this process.
    pub(super) fn launch(self) -> Result<Pid, Refusal> {
        let Self { orders, leaf, stdio, inherited, ignored } = self;
        launch(orders, leaf, stdio, inherited, ignored)
    }

    /// Lets go of the client's descriptors: somebody else launches the server.
    pub(super) fn forget(self) {
        self.inherited.close();
    }
}

/// What a fork says that could not become the server.
type Failure = Option<Refusal>;

fn launch(
    orders: &Launch,
    leaf: Option<&Leaf>,
    stdio: Stdio,
    inherited: Inherited,
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
        Side::Child(birth) => {
            let prepared = prepare(birth, leaf, &orders.controls, ignored, guardian);
            // Returns only if it fails.
            let refusal =
                prepared.err().unwrap_or_else(|| Refusal::exec(&orders.spec, &command.exec()));
            tell(writer, refusal);
            leave()
        }
        Side::Parent { child } => {
            drop((writer, command));
            inherited.into_iter().for_each(Inherited::close);
            match hear(failure) {
                None => Ok(child),
                Some(refusal) => {
                    // It is about to leave, if it has not left already.
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

/// What the child does before it becomes the server.
fn prepare(
    birth: Birth,
    leaf: Option<&Leaf>,
    controls: &[Control],
    ignored: Ignored,
    guardian: Pid,
) -> Result<(), Refusal> {
    if let (Birth::Outside, Some(leaf)) = (birth, leaf) {
        leaf.enter().map_err(Refusal::leaf)?;
    }
    controls.iter().try_for_each(Control::enter).map_err(Refusal::leaf)?;
    let post = |errno: Errno| Refusal::guardian(errno.into());
    setsid().map_err(post)?;
    ignore(ignored);
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(post)?;
    // A guardian that died before the line above could not be noticed by it.
    if getppid() == Some(guardian) { Ok(()) } else { Err(post(Errno::SRCH)) }
}

fn tell(mut writer: io::PipeWriter, refusal: Refusal) {
    let failure: Failure = Some(refusal);
    // If it can't be told, the guardian sees a server that ends at once.
    let _ = postcard::to_stdvec(&failure).map(|bytes| writer.write_all(&bytes));
}

/// Waits for the exec, which closes the pipe, or for the reason why there was none.
fn hear(mut failure: io::PipeReader) -> Failure {
    let mut bytes = Vec::new();
    let _ = failure.read_to_end(&mut bytes);
    postcard::from_bytes(&bytes).ok().flatten()
}
