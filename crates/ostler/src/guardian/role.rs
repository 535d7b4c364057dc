//! The life of a guardian, from its start to its end.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, chdir, getpid, getppid, pidfd_open, set_child_subreaper, setsid,
};

use super::estate::Estate;
use super::gate::{Gate, NoGate};
use super::init;
use super::launch::{Inherited, Start, Stdio};
use super::root::Root;
use super::watch::{Charge, Guardian};
use crate::cgroup::{Control, Leaf, Watch};
use crate::level::Level;
use crate::notice::Notice;
use crate::outcome::Refusal;
use crate::signals::Ignored;
use crate::wire::guardian::{Launch, Order, Report};
use crate::wire::{Conn, Received};

const DONE: i32 = 0;
/// Nothing was started.
const NOT_STARTED: i32 = 1;

pub(super) fn run(owner: &OsStr) -> i32 {
    let Ok(inherited) = Inherited::look() else { return NOT_STARTED };
    let Ok(mut conn) = Conn::inherited() else { return NOT_STARTED };
    match begin(owner, inherited, &mut conn) {
        Ok(Some(charge)) => {
            Guardian::new(conn, charge).watch();
            DONE
        }
        Ok(None) => NOT_STARTED,
        Err(refusal) => {
            // An owner that can't hear it any more sees the end of the socket instead.
            let _ = conn.send(&Report::Refused(refusal), &[]);
            NOT_STARTED
        }
    }
}

/// `None`: the owner has gone before there was anything to guard.
fn begin(owner: &OsStr, inherited: Inherited, conn: &mut Conn) -> Result<Option<Charge>, Refusal> {
    if has_threads() {
        return Err(Refusal::Threads);
    }
    let ignored = Ignored::now().map_err(Refusal::guardian)?;
    let notice = detach().map_err(Refusal::guardian)?;
    let Some(owner) = watch_owner(owner).map_err(Refusal::guardian)? else { return Ok(None) };
    let Some(orders) = await_start(conn, &owner).map_err(Refusal::guardian)? else {
        return Ok(None);
    };
    let stdio = stdio_from(conn).ok_or_else(|| Refusal::guardian(Errno::BADF.into()))?;
    let leaf = make_leaf(&orders)?;
    let entrance = leaf.as_ref().map(|(leaf, _)| leaf);
    let start = Start { orders: &orders, leaf: entrance, stdio, inherited, ignored };
    make_controls(&orders).inspect_err(|_| forsake(leaf.as_ref(), &orders.controls))?;
    let gate = make_gate(&orders).inspect_err(|_| forsake(leaf.as_ref(), &orders.controls))?;
    let launched = match orders.minimum {
        Level::Tree | Level::Leaf => start.launch().map(Root::Server),
        Level::Strict => init::launch(start).map(Root::Init),
    };
    let root = launched.inspect_err(|_| {
        forsake(leaf.as_ref(), &orders.controls);
        gate.iter().for_each(Gate::demolish);
    })?;
    // Nothing of the owner's file systems is pinned from here on.
    let _ = chdir("/");
    let level = match (&root, &leaf) {
        (Root::Init(_), _) => Level::Strict,
        (Root::Server(_), Some(_)) => Level::Leaf,
        (Root::Server(_), None) => Level::Tree,
    };
    let started = Report::Started { pid: root.server().as_raw_pid(), level };
    // An owner that is gone by now is noticed by the watch.
    let _ = conn.send(&started, root.init().as_slice());
    let estate = Estate::new(root, leaf, orders.controls.clone());
    Ok(Some(Charge { owner, notice, estate, gate, orders }))
}

/// A runtime's threads would take signals, and would be left out by a fork.
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
    // The init is in the leaf, and is not the server's.
    let strangers = u64::from(orders.minimum == Level::Strict);
    for control in &orders.controls {
        control.make(strangers).map_err(|error| Refusal::limit(control.name(), &error))?;
    }
    Ok(())
}

fn make_gate(orders: &Launch) -> Result<Option<Gate>, Refusal> {
    let Some(service) = orders.engine.clone() else { return Ok(None) };
    if cfg!(not(feature = "engine")) {
        return Err(Refusal::WithoutEngine);
    }
    Gate::open(service).map(Some).map_err(|NoGate(path, error)| Refusal::door(&path, &error))
}

/// Nobody is in them any more, if anybody was: so nothing can refuse their removal.
fn forsake(leaf: Option<&(Leaf, Watch)>, controls: &[Control]) {
    for control in controls {
        let _ = control.remove();
    }
    let _ = leaf.map(|(leaf, _)| leaf.remove());
}

fn detach() -> io::Result<Notice> {
    setsid()?;
    let notice = Notice::install()?;
    set_child_subreaper(Some(getpid()))?;
    rustix::thread::set_name(c"ostler-guardian")?;
    Ok(notice)
}

/// A pidfd of the owner, which is our parent as long as it lives.
fn watch_owner(expected: &OsStr) -> io::Result<Option<OwnedFd>> {
    let expected = expected.to_str().and_then(|pid| pid.parse().ok()).and_then(Pid::from_raw);
    let Some(parent) = getppid().filter(|parent| Some(*parent) == expected) else {
        return Ok(None);
    };
    match pidfd_open(parent, PidfdFlags::empty()) {
        // Still our parent: so the pid has not changed hands before the handle was taken.
        Ok(owner) if getppid() == Some(parent) => Ok(Some(owner)),
        Ok(_) | Err(Errno::SRCH) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn await_start(conn: &mut Conn, owner: &OwnedFd) -> io::Result<Option<Box<Launch>>> {
    loop {
        match conn.receive()? {
            Received::Message(Order::Start(launch)) => return Ok(Some(launch)),
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
