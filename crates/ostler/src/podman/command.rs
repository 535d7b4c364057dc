//! Asking podman, within a limit.
//!
//! To list and remove, podman executes what its own files name: the runtime that its database has for a container,
//! and the hooks beside a container's files. A server that uses podman can write all of them. So whenever ostler asks on its
//! own behalf, podman runs inside a [fence](crate::fence) of the server's level, with a guardian of its own, and all
//! that it leaves behind ends with the call.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::fenced::{Fenced, run_fenced};
use super::find_in;
use super::store::{Files, Store};
use crate::fence::ServerStdio;
use crate::id::InstanceId;
use crate::level::Level;
use crate::poll::readable;
use crate::shelf::{PODMAN, Shelf};
use crate::spec::ServerSpec;
use crate::terms::GuardianProgram;
pub(crate) use crate::wire::porter::{Podman, PodmanCall};

/// For one call, on a machine under load.
const CALL: Duration = Duration::from_secs(10);
/// Where podman's runtime keeps its state.
const RUNTIME: &str = "XDG_RUNTIME_DIR";
/// More than any list that makes sense.
const LARGEST_ANSWER: u64 = 16 << 20;

/// The variables that podman gets: where its files are, as the user has set it.
const SURROUNDINGS: [&str; 11] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "TMPDIR",
    "XDG_RUNTIME_DIR",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "CONTAINERS_CONF",
    "CONTAINERS_STORAGE_CONF",
    "STORAGE_DRIVER",
];

/// Why podman has not answered.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoAnswer {
    #[error("there is no podman command on the PATH")]
    NotFound,
    #[error("it can't be run: {0}")]
    NotRun(#[from] io::Error),
    #[error("it can't be run in a fence: {0}")]
    NoFence(String),
    #[error("it has not answered within {0:?}")]
    TooLate(Duration),
    #[error("it says: {0}")]
    Refused(String),
    #[error("its answer can't be read: {0}")]
    Unreadable(#[from] serde_json::Error),
}

impl Podman {
    /// The command that was found for a server before its start, in the environment that the server starts with.
    pub(crate) fn of(program: PathBuf, spec: &ServerSpec, level: Level) -> Self {
        let env = surroundings(spec.env.iter().cloned());
        let way = PodmanCall::Fenced(level, GuardianProgram::Myself);
        Self { program: Some(program), env, is_servers: true, way }
    }

    /// The command that this process itself would find.
    pub(crate) fn own(level: Level, guardian: GuardianProgram) -> Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let program = find_in(&path, |place| !Shelf::holds(&place.join(PODMAN)));
        let env = surroundings(std::env::vars_os());
        Self { program, env, is_servers: false, way: PodmanCall::Fenced(level, guardian) }
    }

    /// This command as a child, for the wrapper, which is inside the server's fence.
    pub(super) fn direct(program: PathBuf, env: Vec<(OsString, OsString)>) -> Self {
        Self { program: Some(program), env, is_servers: false, way: PodmanCall::Direct }
    }

    /// Whether a command with these variables finds the same default store.
    pub(super) fn is_like(&self, env: &[(OsString, OsString)]) -> bool {
        // The server's own PATH begins with its shelf.
        let sorted = |env: Vec<(OsString, OsString)>| -> BTreeSet<_> {
            env.into_iter().filter(|(name, _)| name != "PATH").collect()
        };
        sorted(self.env.clone()) == sorted(surroundings(env.iter().cloned()))
    }

    /// What podman prints. Whatever it leaves behind carries the instance's mark.
    pub(super) fn ask(
        &self,
        store: &Store,
        instance: Option<InstanceId>,
        words: &[&str],
        limit: Duration,
    ) -> Result<Vec<u8>, NoAnswer> {
        let is_plain = self.is_servers && store.is_default();
        let flags = if is_plain { Vec::new() } else { store.flags() };
        let runtime = store.runtime().filter(|_| !is_plain);
        let words = flags.into_iter().chain(words.iter().map(|word| (*word).to_owned()));
        let mut env = self.env.clone();
        if let Some(runtime) = runtime {
            env.retain(|(name, _)| name != RUNTIME);
            env.push((RUNTIME.into(), runtime.into()));
        }
        self.run(words.map(OsString::from).collect(), env, instance, limit)
    }

    /// Where podman keeps containers if it gets these flags before its subcommand.
    pub(super) fn files(&self, flags: &[OsString], limit: Duration) -> Result<Files, NoAnswer> {
        let question = ["info", "--format", "{{json .Store}}"].map(OsString::from);
        let words = flags.iter().cloned().chain(question).collect();
        Ok(serde_json::from_slice(&self.run(words, self.env.clone(), None, limit)?)?)
    }

    fn run(
        &self,
        args: Vec<OsString>,
        env: Vec<(OsString, OsString)>,
        instance: Option<InstanceId>,
        limit: Duration,
    ) -> Result<Vec<u8>, NoAnswer> {
        let limit = limit.min(CALL);
        let (out, err) = (memory()?, memory()?);
        let program = self.program.as_ref().ok_or(NoAnswer::NotFound)?;
        let status = match &self.way {
            PodmanCall::Direct => run_direct(program, &args, env, (&out, &err), limit)?,
            PodmanCall::Fenced(level, guardian) => {
                let spec = ServerSpec {
                    name: PODMAN.into(),
                    program: program.into(),
                    args,
                    env,
                    cwd: Some("/".into()),
                };
                let stdio = ServerStdio {
                    stdin: null()?,
                    stdout: out.try_clone()?.into(),
                    stderr: err.try_clone()?.into(),
                };
                let order = Fenced { spec, stdio, mark: instance, level: *level, guardian };
                let ended = run_fenced(order, limit).map_err(NoAnswer::NoFence)?;
                ended.ok_or(NoAnswer::TooLate(limit))?
            }
        };
        if status.success() {
            return Ok(content(out)?);
        }
        let said = content(err)?;
        Err(NoAnswer::Refused(String::from_utf8_lossy(&said).trim().to_owned()))
    }
}

fn run_direct(
    program: &PathBuf,
    args: &[OsString],
    env: Vec<(OsString, OsString)>,
    (out, err): (&File, &File),
    limit: Duration,
) -> Result<ExitStatus, NoAnswer> {
    let mut command = Command::new(program);
    command.args(args).env_clear().envs(env);
    command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(err.try_clone()?);
    let mut podman = command.spawn()?;
    // Our own child, which nobody has waited for: the number is still its own.
    let handle = pidfd_open(Pid::from_child(&podman), PidfdFlags::empty());
    let handle = handle.map_err(io::Error::from)?;
    let deadline = Instant::now() + limit;
    loop {
        if let Some(status) = podman.try_wait()? {
            return Ok(status);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            podman.kill()?;
            podman.wait()?;
            return Err(NoAnswer::TooLate(limit));
        }
        readable(&handle, left)?;
    }
}

fn surroundings(env: impl Iterator<Item = (OsString, OsString)>) -> Vec<(OsString, OsString)> {
    let counts = |name: &OsStr| SURROUNDINGS.iter().any(|one| name == *one);
    env.filter(|(name, _)| counts(name)).collect()
}

fn null() -> io::Result<OwnedFd> {
    Ok(File::open("/dev/null")?.into())
}

/// It takes whatever is printed, and nobody has to read it meanwhile.
fn memory() -> io::Result<File> {
    Ok(memfd_create("podman", MemfdFlags::CLOEXEC)?.into())
}

fn content(mut file: File) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    file.rewind()?;
    file.take(LARGEST_ANSWER).read_to_end(&mut content)?;
    Ok(content)
}
