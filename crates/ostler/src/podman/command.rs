//! Runs the podman command for ostler itself, with a time limit.
//!
//! To list and remove containers, podman executes programs that its own files name: the runtime that its database has
//! for a container, and the hooks beside a container's files. A server that uses podman can write all these files. So
//! ostler runs podman inside a [fence](crate::fence) of the server's level, with a guardian of its own, and every
//! process that podman leaves behind ends with the call.

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

use super::fenced::{FencedCommand, run_fenced};
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

/// Longest time for one call, enough for a machine under load.
const CALL: Duration = Duration::from_secs(10);
/// Names the directory in which podman's runtime keeps its state.
const RUNTIME: &str = "XDG_RUNTIME_DIR";
/// Bytes. Larger than any sensible list.
const LARGEST_OUTPUT: u64 = 16 << 20;

/// The environment variables that podman gets. They decide where its files are.
const VARIABLES: [&str; 11] = [
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

/// Why a podman call failed. The texts follow the name of the store, so they don't repeat "podman".
#[derive(Debug, thiserror::Error)]
pub(super) enum PodmanError {
    #[error("there is no podman command on the PATH")]
    NotFound,
    #[error("it can't be run: {0}")]
    NotRun(#[from] io::Error),
    #[error("it can't be run in a fence: {0}")]
    NoFence(String),
    #[error("it did not finish within {0:?}")]
    TooLate(Duration),
    #[error("it failed: {0}")]
    Refused(String),
    #[error("its output can't be parsed: {0}")]
    Unreadable(#[from] serde_json::Error),
}

impl Podman {
    /// The command that was found for a server before its start, with the environment of that server.
    pub(crate) fn of(program: PathBuf, spec: &ServerSpec, level: Level) -> Self {
        let env = podman_variables(spec.env.iter().cloned());
        let way = PodmanCall::Fenced(level, GuardianProgram::Myself);
        Self { program: Some(program), env, is_servers: true, way }
    }

    /// The command that this process itself finds, with its own environment.
    pub(crate) fn own(level: Level, guardian: GuardianProgram) -> Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let program = find_in(&path, |place| !Shelf::holds(&place.join(PODMAN)));
        let env = podman_variables(std::env::vars_os());
        Self { program, env, is_servers: false, way: PodmanCall::Fenced(level, guardian) }
    }

    /// A command that runs as a plain child, for the wrapper, which is inside the server's fence.
    pub(super) fn direct(program: PathBuf, env: Vec<(OsString, OsString)>) -> Self {
        Self { program: Some(program), env, is_servers: false, way: PodmanCall::Direct }
    }

    /// Whether podman finds the same default store with these variables.
    pub(super) fn is_like(&self, env: &[(OsString, OsString)]) -> bool {
        // PATH is not compared: the server's PATH begins with its shelf.
        let sorted = |env: Vec<(OsString, OsString)>| -> BTreeSet<_> {
            env.into_iter().filter(|(name, _)| name != "PATH").collect()
        };
        sorted(self.env.clone()) == sorted(podman_variables(env.iter().cloned()))
    }

    /// Runs podman on a store and returns its output. Processes that it leaves behind carry the instance's mark.
    pub(super) fn query(
        &self,
        store: &Store,
        instance: Option<InstanceId>,
        words: &[&str],
        limit: Duration,
    ) -> Result<Vec<u8>, PodmanError> {
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

    /// The store that podman uses with these global flags.
    pub(super) fn files(&self, flags: &[OsString], limit: Duration) -> Result<Files, PodmanError> {
        let query = ["info", "--format", "{{json .Store}}"].map(OsString::from);
        let words = flags.iter().cloned().chain(query).collect();
        Ok(serde_json::from_slice(&self.run(words, self.env.clone(), None, limit)?)?)
    }

    fn run(
        &self,
        args: Vec<OsString>,
        env: Vec<(OsString, OsString)>,
        instance: Option<InstanceId>,
        limit: Duration,
    ) -> Result<Vec<u8>, PodmanError> {
        let limit = limit.min(CALL);
        let (out, err) = (memory()?, memory()?);
        let program = self.program.as_ref().ok_or(PodmanError::NotFound)?;
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
                let order = FencedCommand { spec, stdio, mark: instance, level: *level, guardian };
                let ended = run_fenced(order, limit).map_err(PodmanError::NoFence)?;
                ended.ok_or(PodmanError::TooLate(limit))?
            }
        };
        if status.success() {
            return Ok(content(out)?);
        }
        let said = content(err)?;
        Err(PodmanError::Refused(String::from_utf8_lossy(&said).trim().to_owned()))
    }
}

fn run_direct(
    program: &PathBuf,
    args: &[OsString],
    env: Vec<(OsString, OsString)>,
    (out, err): (&File, &File),
    limit: Duration,
) -> Result<ExitStatus, PodmanError> {
    let mut command = Command::new(program);
    command.args(args).env_clear().envs(env);
    command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(err.try_clone()?);
    let mut podman = command.spawn()?;
    // It is our child and not reaped yet, so the pid can't have been recycled.
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
            return Err(PodmanError::TooLate(limit));
        }
        readable(&handle, left)?;
    }
}

fn podman_variables(env: impl Iterator<Item = (OsString, OsString)>) -> Vec<(OsString, OsString)> {
    let counts = |name: &OsStr| VARIABLES.iter().any(|one| name == *one);
    env.filter(|(name, _)| counts(name)).collect()
}

fn null() -> io::Result<OwnedFd> {
    Ok(File::open("/dev/null")?.into())
}

/// A file for podman's output that never fills up like a pipe, so no thread has to read it meanwhile.
fn memory() -> io::Result<File> {
    Ok(memfd_create("podman", MemfdFlags::CLOEXEC)?.into())
}

fn content(mut file: File) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    file.rewind()?;
    file.take(LARGEST_OUTPUT).read_to_end(&mut content)?;
    Ok(content)
}
