//! From fork to exec: the only place with code between the two.
#![expect(unsafe_code, reason = "a hook between fork and exec can't be had without")]

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal, setsid};

use super::wire::Launch;
use crate::cgroup::Leaf;
use crate::fence::{Descriptors, Refusal};
use crate::id::INSTANCE_VARIABLE;
use crate::signals::Ignored;

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
        for fd in self.0 {
            // SAFETY: it was open before this process opened anything, so that nothing owns it.
            unsafe { libc::close(fd) };
        }
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

fn launch(
    orders: &Launch,
    leaf: Option<&Leaf>,
    stdio: Stdio,
    inherited: Inherited,
    ignored: Ignored,
) -> Result<Pid, Refusal> {
    let spec = &orders.spec;
    if let Some(cwd) = &spec.cwd {
        let usable = fs::metadata(cwd).and_then(|found| {
            found.is_dir().then_some(()).ok_or_else(|| io::ErrorKind::NotADirectory.into())
        });
        usable.map_err(|error| Refusal::working_directory(cwd, &error))?;
    }
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
        command.current_dir(cwd);
    }

    let (mut failure, entrance) = Entrance::of(leaf).map_err(Refusal::leaf)?;
    let guardian = getpid();
    let hook = move || {
        entrance.enter()?;
        setsid()?;
        for signal in ignored.iter() {
            // SAFETY: `signal` only sets a disposition; it is async-signal-safe.
            unsafe { libc::signal(signal, libc::SIG_IGN) };
        }
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // A guardian that died before the line above could not be noticed by it.
        if getppid() == Some(guardian) { Ok(()) } else { Err(rustix::io::Errno::SRCH.into()) }
    };
    // SAFETY: the hook makes system calls only; it neither allocates nor takes locks.
    unsafe { command.pre_exec(hook) };

    let spawned = match orders.descriptors {
        Descriptors::StdioOnly => {
            inherited.close();
            command.spawn()
        }
        Descriptors::Inherited => {
            let spawned = command.spawn();
            inherited.close();
            spawned
        }
    };
    drop(command);
    match spawned {
        Ok(child) => Ok(Pid::from_child(&child)),
        Err(error) if matches!(failure.read(&mut [0]), Ok(1)) => Err(Refusal::leaf(error)),
        Err(error) => Err(Refusal::exec(spec, &error)),
    }
}

/// The way into the leaf, and a pipe that tells a failure there from one of exec.
struct Entrance {
    leaf: Option<File>,
    failed: io::PipeWriter,
}

impl Entrance {
    fn of(leaf: Option<&Leaf>) -> io::Result<(io::PipeReader, Self)> {
        let leaf = leaf.map(Leaf::entrance).transpose()?;
        let (reader, failed) = io::pipe()?;
        Ok((reader, Self { leaf, failed }))
    }

    fn enter(&self) -> io::Result<()> {
        let Some(mut leaf) = self.leaf.as_ref() else { return Ok(()) };
        leaf.write_all(b"0").inspect_err(|_| {
            // Lost only if memory is short as well: then the error counts as one of exec.
            let _ = (&self.failed).write(&[1]);
        })
    }
}
