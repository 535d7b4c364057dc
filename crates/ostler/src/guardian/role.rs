//! Entry point of the guardian process: setup, launch of the server, watch, exit code.
//!
//! The order of the steps matters. The guardian records the descriptors that it inherited before it opens its own,
//! and the signals that it inherited as ignored before it installs handlers. It becomes a subreaper before it forks.
//! It takes a pidfd of the owner before it waits for the launch order, so that an owner that dies in between is
//! noticed. Whatever it created for a launch that fails, it removes before it reports the refusal.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, chdir, getpid, getppid, pidfd_open, set_child_subreaper, setsid,
};

use super::doors::{Doors, DoorsError};
use super::init;
use super::launch::{InheritedFds, ServerStart, Stdio};
use super::root::Root;
use super::stderr_log::StderrLog;
use super::tree::ProcessTree;
use super::watch::{GuardedServer, Guardian};
use crate::cgroup::{Control, Leaf, Watch};
use crate::level::Level;
use crate::notice::SignalPipe;
use crate::outcome::Refusal;
use crate::signals::Ignored;
use crate::wire::guardian::{GuardianOrder, GuardianReport, Launch};
use crate::wire::{Conn, Received};

const DONE: i32 = 0;
const NOT_STARTED: i32 = 1;

pub(super) fn run(owner: &OsStr) -> i32 {
    let Ok(inherited) = InheritedFds::scan() else { return NOT_STARTED };
    let Ok(mut conn) = Conn::inherited() else { return NOT_STARTED };
    match begin(owner, inherited, &mut conn) {
        Ok(Some(server)) => {
            Guardian::new(conn, server).watch();
            DONE
        }
        Ok(None) => NOT_STARTED,
        Err(refusal) => {
            // If the send fails, the owner sees the end of the socket instead.
            let _ = conn.send(&GuardianReport::Refused(refusal), &[]);
            NOT_STARTED
        }
    }
}

/// Prepares and launches the server. `None`: the owner died before it sent the launch order.
fn begin(
    owner: &OsStr,
    inherited: InheritedFds,
    conn: &mut Conn,
) -> Result<Option<GuardedServer>, Refusal> {
    if has_threads() {
        return Err(Refusal::Threads);
    }
    let ignored = Ignored::now().map_err(Refusal::guardian)?;
    let signals = detach().map_err(Refusal::guardian)?;
    let Some(owner) = watch_owner(owner).map_err(Refusal::guardian)? else { return Ok(None) };
    let Some(orders) = await_start(conn, &owner).map_err(Refusal::guardian)? else {
        return Ok(None);
    };
    let mut stdio = stdio_from(conn).ok_or_else(|| Refusal::guardian(Errno::BADF.into()))?;
    let log = begin_log(&orders, &mut stdio).map_err(Refusal::guardian)?;
    let Launched { root, leaf, doors } = match launch(&orders, (stdio, inherited, ignored)) {
        Ok(launched) => launched,
        Err(refusal) => {
            if let Some(log) = log {
                log.refused(&refusal.to_string());
            }
            return Err(refusal);
        }
    };
    // Keeps no file system of the owner busy.
    let _ = chdir("/");
    let level = match (&root, &leaf) {
        (Root::Init(_), _) => Level::Strict,
        (Root::Server(_), Some(_)) => Level::Leaf,
        (Root::Server(_), None) => Level::Tree,
    };
    let started = GuardianReport::Started { pid: root.server().as_raw_pid(), level };
    // If the owner has died meanwhile, the watch notices its pidfd.
    let _ = conn.send(&started, root.init().as_slice());
    let tree = ProcessTree::new(root, leaf, orders.controls.clone());
    Ok(Some(GuardedServer { owner, signals, tree, doors, log, orders }))
}

/// A server that runs, and what was created for it.
struct Launched {
    root: Root,
    leaf: Option<(Leaf, Watch)>,
    doors: Option<Doors>,
}

/// Creates what the server needs and starts it. Removes everything again if that fails.
fn launch(
    orders: &Launch,
    (stdio, inherited, ignored): (Stdio, InheritedFds, Ignored),
) -> Result<Launched, Refusal> {
    let leaf = make_leaf(orders)?;
    let entrance = leaf.as_ref().map(|(leaf, _)| leaf);
    let start = ServerStart { orders, leaf: entrance, stdio, inherited, ignored };
    make_controls(orders).inspect_err(|_| remove_cgroups(leaf.as_ref(), &orders.controls))?;
    let doors =
        make_doors(orders).inspect_err(|_| remove_cgroups(leaf.as_ref(), &orders.controls))?;
    let launched = match orders.minimum {
        Level::Tree | Level::Leaf => start.launch().map(Root::Server),
        Level::Strict => init::launch(start).map(Root::Init),
    };
    let root = launched.inspect_err(|_| {
        remove_cgroups(leaf.as_ref(), &orders.controls);
        doors.iter().for_each(Doors::remove_files);
    })?;
    Ok(Launched { root, leaf, doors })
}

/// Puts the write end of a pipe in place of the server's stderr, if its stderr goes to a log.
fn begin_log(orders: &Launch, stdio: &mut Stdio) -> io::Result<Option<StderrLog>> {
    let Some(path) = &orders.log else { return Ok(None) };
    let (log, stderr) = StderrLog::begin(path.clone(), orders.id)?;
    stdio.stderr = stderr;
    Ok(Some(log))
}

/// Other threads could take our signals, and a fork would not copy them.
fn has_threads() -> bool {
    std::fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() > 1)
}

fn make_leaf(orders: &Launch) -> Result<Option<(Leaf, Watch)>, Refusal> {
    let Some(path) = orders.leaf.clone() else { return Ok(None) };
    match Leaf::create(path) {
        Ok(leaf) => {
            let watch = leaf.watch().map_err(Refusal::leaf)?;
            Ok(Some((leaf, watch)))
        }
        Err(reason) if orders.minimum == Level::Leaf => {
            Err(Refusal::containment(Level::Leaf, &reason))
        }
        Err(_) => Ok(None),
    }
}

fn make_controls(orders: &Launch) -> Result<(), Refusal> {
    // The init is in the leaf too, and must not count against the server's limit on pids.
    let strangers = u64::from(orders.minimum == Level::Strict);
    for control in &orders.controls {
        control.make(strangers).map_err(|error| Refusal::limit(control.name(), &error))?;
    }
    Ok(())
}

fn make_doors(orders: &Launch) -> Result<Option<Doors>, Refusal> {
    let Some(service) = orders.engine.clone() else { return Ok(None) };
    if cfg!(not(feature = "engine")) {
        return Err(Refusal::WithoutEngine);
    }
    Doors::open(service).map(Some).map_err(|DoorsError(path, error)| Refusal::door(&path, &error))
}

/// Removes the cgroups of a failed launch. No process is in them, so the removal succeeds.
fn remove_cgroups(leaf: Option<&(Leaf, Watch)>, controls: &[Control]) {
    for control in controls {
        let _ = control.remove();
    }
    let _ = leaf.map(|(leaf, _)| leaf.remove());
}

fn detach() -> io::Result<SignalPipe> {
    setsid()?;
    let signals = SignalPipe::install()?;
    set_child_subreaper(Some(getpid()))?;
    rustix::thread::set_name(c"ostler-guardian")?;
    Ok(signals)
}

/// Returns a pidfd of the owner, or `None` if our parent is not the owner (any more).
fn watch_owner(expected: &OsStr) -> io::Result<Option<OwnedFd>> {
    let expected = expected.to_str().and_then(|pid| pid.parse().ok()).and_then(Pid::from_raw);
    let Some(parent) = getppid().filter(|parent| Some(*parent) == expected) else {
        return Ok(None);
    };
    match pidfd_open(parent, PidfdFlags::empty()) {
        // It is still our parent, so the pid was not recycled before the pidfd was opened.
        Ok(owner) if getppid() == Some(parent) => Ok(Some(owner)),
        Ok(_) | Err(Errno::SRCH) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn await_start(conn: &mut Conn, owner: &OwnedFd) -> io::Result<Option<Box<Launch>>> {
    loop {
        match conn.receive()? {
            Received::Message(GuardianOrder::Start(launch)) => return Ok(Some(launch)),
            Received::Message(_) | Received::Closed => return Ok(None),
            Received::NothingYet => {}
        }
        let mut fds = [PollFd::new(conn, PollFlags::IN), PollFd::new(owner, PollFlags::IN)];
        match poll(&mut fds, None) {
            Ok(_) if !fds[1].revents().is_empty() => return Ok(None),
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn stdio_from(conn: &mut Conn) -> Option<Stdio> {
    let [stdin, stdout, stderr] = conn.take_descriptors().try_into().ok()?;
    Some(Stdio { stdin, stdout, stderr })
}
