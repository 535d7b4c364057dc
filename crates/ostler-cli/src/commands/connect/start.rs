//! A gateway for clients that find none.
//!
//! A client outside of any instance starts the gateway that all clients share. Inside of an instance that would be
//! wrong, because all that is started there ends with the instance: such a client joins a gateway that runs, or has
//! one that serves its instance alone.

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

/// For a gateway to be there, whoever starts it; its predecessor may have to end first.
const START_LIMIT: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// After so long without a client and without a server that runs it ends.
const IDLE_EXIT: &str = "5m";
/// A log beyond that is put aside.
const LONG_LOG: u64 = 1 << 20;
const XDG_RUNTIME_DIR: &str = "XDG_RUNTIME_DIR";
/// How much of the log is shown if it does not start.
const TAIL: usize = 2000;

/// Why no gateway could be started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    #[error(transparent)]
    GatewaySocket(#[from] SocketError),
    #[error(transparent)]
    Dial(#[from] DialError),
    #[error("no gateway was there within {START_LIMIT:?}")]
    TimedOut,
    #[error("the gateway did not start:\n{0}")]
    Refused(String),
    #[error("cannot start a gateway")]
    Failed(#[from] io::Error),
}

/// Connects to the gateway, and starts one if there is none.
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

/// The same at this place: one of those who want it starts it, and the others wait.
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
            // Somebody else may have been the starter a moment ago.
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

/// `None` if no gateway is there.
fn dial(socket: &GatewaySocket) -> Result<Option<GatewayConnection>, DialError> {
    match GatewayConnection::to(socket) {
        Err(DialError::Nobody) => Ok(None),
        dialled => dialled.map(Some),
    }
}

/// Starts it, and waits until it can be reached.
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
    // One client's variables are no other's business: each sends its own.
    command.env_clear().envs(variables()).current_dir("/");
    if let Some(instance) = socket.instance() {
        // With the mark, so that it is found as a part of the instance if nobody is left to end it.
        let id = instance.to_string();
        command.arg("--only-for").arg(&id).env(INSTANCE_VARIABLE, id);
    }
    command.stdin(Stdio::null()).stdout(theirs).stderr(log);
    let mut first = command.spawn()?;
    // Its copy of the pipe goes with it.
    drop(command);
    first.wait()?;
    if is_ready(ready)? { Ok(()) } else { Err(StartError::Refused(said_since(&path, before))) }
}

/// What a gateway needs. A client that was started without `XDG_RUNTIME_DIR` would else have servers that differ from
/// those of a client with the usual one.
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

/// The gateway says one word, or ends without.
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
