//! Finds the gateway of a client, and starts one in the background if none runs.
//!
//! One client takes the start lock and starts the gateway; the others poll until it answers. The new gateway reports readiness
//! through a pipe, and its stderr goes to a log file, whose end is shown if the start fails.
//!
//! A client inside an instance must not start the shared gateway, because everything it starts ends with the instance. It joins a
//! running gateway, or starts one that serves its instance alone.

use std::fs::{self, File, OpenOptions};
use std::io::{self, PipeReader, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use ostler::{INSTANCE_VARIABLE, RUNTIME_VARIABLE, instances_around};
use ostler_gateway::config::{Environment, Names};
use ostler_gateway::front::{DialError, GatewayConnection, GatewaySocket, Lock, SocketError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::process::getuid;

/// Wait for a gateway, started by any client; its predecessor may have to exit first.
const START_LIMIT: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// A gateway exits after this long without clients and servers.
const IDLE_EXIT: &str = "5m";
/// A larger log is rotated, in bytes.
const LONG_LOG: u64 = 1 << 20;
const XDG_RUNTIME_DIR: &str = "XDG_RUNTIME_DIR";
/// Bytes of the log that are shown if the start fails.
const TAIL: usize = 2000;

#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    #[error(transparent)]
    GatewaySocket(#[from] SocketError),
    #[error(transparent)]
    Dial(#[from] DialError),
    #[error("no gateway was ready within {START_LIMIT:?}")]
    TimedOut,
    #[error("the gateway did not start:\n{0}")]
    Refused(String),
    #[error("cannot start a gateway")]
    Failed(#[from] io::Error),
}

/// Connects to the gateway, and starts one if none runs.
pub(crate) fn reach(
    shared: &GatewaySocket,
    configuration: Option<&Path>,
) -> Result<GatewayConnection, StartError> {
    let around = instances_around(std::process::id().cast_signed());
    let Some(innermost) = around.first() else { return reach_at(shared, configuration) };
    let own: Vec<GatewaySocket> =
        around.iter().map(|id| shared.inside(*id)).collect::<Result<_, _>>()?;
    for socket in std::iter::once(shared).chain(&own) {
        if let Some(gateway) = dial(socket)? {
            return Ok(gateway);
        }
    }
    reach_at(&shared.inside(*innermost)?, configuration)
}

/// Like [`reach`], at one place. One client starts the gateway, the others wait.
fn reach_at(
    socket: &GatewaySocket,
    configuration: Option<&Path>,
) -> Result<GatewayConnection, StartError> {
    let end = Instant::now() + START_LIMIT;
    loop {
        if let Some(gateway) = dial(socket)? {
            return Ok(gateway);
        }
        if let Some(_starting) = Lock::take(&socket.start_lock())? {
            // Another client may have started it just before.
            match dial(socket)? {
                None => start(socket, configuration)?,
                Some(gateway) => return Ok(gateway),
            }
        } else {
            thread::sleep(LOOK_EVERY);
        }
        if Instant::now() > end {
            return Err(StartError::TimedOut);
        }
    }
}

/// Connects; `None` if no gateway runs there.
fn dial(socket: &GatewaySocket) -> Result<Option<GatewayConnection>, DialError> {
    match GatewayConnection::to(socket) {
        Err(DialError::NoGateway) => Ok(None),
        dialled => dialled.map(Some),
    }
}

/// Starts a gateway and waits until it is ready.
fn start(socket: &GatewaySocket, configuration: Option<&Path>) -> Result<(), StartError> {
    let path = socket.log()?;
    let log = open_log(&path)?;
    let before = log.metadata()?.len();
    let (ready, theirs) = io::pipe()?;
    let mut command = Command::new("/proc/self/exe");
    command.arg0("ostler").args(["serve", "--detach=first", "--idle-exit", IDLE_EXIT, "--socket"]);
    command.arg(socket.path());
    match configuration {
        Some(path) => command.arg("--config").arg(path),
        None => command.arg("--no-config"),
    };
    // The gateway serves other clients too: each client sends its own variables.
    command.env_clear().envs(variables()).current_dir("/");
    if let Some(instance) = socket.instance() {
        // Carries the mark of the instance, so that a sweep finds it.
        let id = instance.to_string();
        command.arg("--only-for").arg(&id).env(INSTANCE_VARIABLE, id);
    }
    command.stdin(Stdio::null()).stdout(theirs).stderr(log);
    let mut first = command.spawn()?;
    // Closes our copy of the write end.
    drop(command);
    first.wait()?;
    if is_ready(ready)? { Ok(()) } else { Err(StartError::Refused(said_since(&path, before))) }
}

/// Environment of a gateway. `XDG_RUNTIME_DIR` is filled in if missing, so that clients with and without it share servers.
fn variables() -> Environment {
    let own = Environment::of_process();
    let names = Names::inherited().iter().chain([RUNTIME_VARIABLE]).collect();
    let mut kept = own.only(&names);
    let usual = Path::new("/run/user").join(getuid().as_raw().to_string());
    let is_mine = |path: &PathBuf| {
        fs::symlink_metadata(path)
            .is_ok_and(|found| found.is_dir() && found.uid() == getuid().as_raw())
    };
    if own.get(XDG_RUNTIME_DIR).is_none() {
        kept.extend(Some(usual).filter(is_mine).map(|path| (XDG_RUNTIME_DIR, path)));
    }
    kept
}

/// Waits for the gateway to report readiness. False if it exits or takes too long.
fn is_ready(mut ready: PipeReader) -> io::Result<bool> {
    let limit = Timespec::try_from(START_LIMIT).map_err(io::Error::other)?;
    if retry_on_intr(|| poll(&mut [PollFd::new(&ready, PollFlags::IN)], Some(&limit)))? == 0 {
        return Ok(false);
    }
    Ok(ready.read(&mut [0; 16])? > 0)
}

fn open_log(path: &Path) -> io::Result<File> {
    if fs::metadata(path).is_ok_and(|found| found.len() > LONG_LOG) {
        fs::rename(path, path.with_extension("log.old"))?;
    }
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

fn said_since(path: &Path, before: u64) -> String {
    let text = fs::read(path).unwrap_or_default();
    let new = text.get(usize::try_from(before).unwrap_or(0)..).unwrap_or(&text);
    let tail = &new[new.len().saturating_sub(TAIL)..];
    String::from_utf8_lossy(tail).trim_end().to_owned()
}
