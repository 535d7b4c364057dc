//! Destructive acts, each with a check that it affects only the test.

use std::fmt::{self, Display, Formatter};
use std::fs;
use std::io::{self, Write};

use rustix::process::{
    Pid, Signal, getpgrp, getpid, getppid, getuid, kill_current_process_group, kill_process,
};

use crate::args::ServerArgs;
use crate::raw::Side;
use crate::{idle, raw};

/// The name of every sandbox's cgroup begins like this; the tests themselves are never inside of one.
const SANDBOX: &str = "/ostler-test-";
/// Of the initial pid namespace, on every kernel (`PROC_PID_INIT_INO`).
const INITIAL_PIDNS: u64 = 0xEFFF_FFFC;

/// An act that was refused because it might affect other processes.
#[derive(Debug)]
pub(crate) enum Refused {
    ParentOutside,
    GroupOutside(i32),
    Root,
    SamePidNamespace,
}

impl Display for Refused {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::ParentOutside => write!(f, "refused: the parent is in no sandbox"),
            Self::GroupOutside(pid) => {
                write!(f, "refused: {pid} of the process group is in no sandbox")
            }
            Self::Root => write!(f, "refused: --kill-all as root"),
            Self::SamePidNamespace => {
                write!(f, "refused: --kill-all outside of a pid namespace of the test's own")
            }
        }
    }
}

/// Executes the acts of the switches, in this order.
pub(crate) fn perform(args: &ServerArgs) -> Result<(), Refused> {
    if let Some(megabytes) = args.eat_memory {
        eat_memory(megabytes);
    }
    if let Some(children) = args.fork_bomb {
        fork_bomb(children, args);
    }
    if args.kill_parent {
        kill_parent()?;
    }
    if args.kill_group {
        kill_group()?;
    }
    if args.kill_all {
        kill_all(args.host_pidns)?;
    }
    if let Some(signal) = args.kill_self {
        let _ = kill_process(getpid(), signal);
    }
    if args.stop_self {
        let _ = kill_process(getpid(), Signal::STOP);
    }
    Ok(())
}

/// Writes to stdout until the reader stops.
pub(crate) fn endless_line() -> ! {
    let chunk = [b'x'; 16384];
    let mut stdout = io::stdout().lock();
    while stdout.write_all(&chunk).is_ok() {}
    idle::forever();
}

fn eat_memory(megabytes: usize) {
    for _ in 0..megabytes {
        std::mem::forget(std::hint::black_box(vec![1u8; 1 << 20]));
    }
}

/// Starts at most `wanted` children; the kernel may allow fewer. The children end with their lifetime at the latest.
fn fork_bomb(wanted: u32, args: &ServerArgs) {
    let mut born = 0;
    for _ in 0..wanted {
        match raw::fork() {
            Ok(Side::Parent) => born += 1,
            Ok(Side::Child) => {
                raw::alarm(args.lifetime);
                idle::forever();
            }
            Err(_) => break,
        }
    }
    if let Some(path) = &args.pid_file {
        let _ = fs::write(path.with_extension("born"), format!("{born}\n"));
    }
}

fn kill_parent() -> Result<(), Refused> {
    let parent = getppid().filter(|pid| is_in_sandbox(*pid)).ok_or(Refused::ParentOutside)?;
    let _ = kill_process(parent, Signal::KILL);
    Ok(())
}

fn kill_group() -> Result<(), Refused> {
    let group = getpgrp();
    let outside =
        processes().into_iter().find(|pid| group_of(*pid) == Some(group) && !is_in_sandbox(*pid));
    if let Some(pid) = outside {
        return Err(Refused::GroupOutside(pid.as_raw_nonzero().get()));
    }
    let _ = kill_current_process_group(Signal::KILL);
    Ok(())
}

fn kill_all(host: Option<u64>) -> Result<(), Refused> {
    if getuid().is_root() {
        return Err(Refused::Root);
    }
    if !is_in_own_pidns(host) {
        return Err(Refused::SamePidNamespace);
    }
    raw::kill_everything();
    Ok(())
}

/// Proven by the test's own namespace if we were told, else by a /proc of an outer namespace that shows us with a
/// pid in each. Anything that cannot be read counts as no.
fn is_in_own_pidns(host: Option<u64>) -> bool {
    let Some(own) = own_pidns() else { return false };
    if own == INITIAL_PIDNS {
        return false;
    }
    host.map_or_else(|| nesting() > 1, |host| host != own)
}

fn own_pidns() -> Option<u64> {
    let link = fs::read_link("/proc/self/ns/pid").ok()?;
    link.to_str()?.strip_prefix("pid:[")?.strip_suffix(']')?.parse().ok()
}

fn nesting() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    line.map_or(0, |pids| pids.split_whitespace().count())
}

fn processes() -> Vec<Pid> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(Pid::from_raw)
        .collect()
}

/// From /proc, because rustix takes it for a bug of its own that the kernel's threads are in group 0.
fn group_of(pid: Pid) -> Option<Pid> {
    let stat = fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    let (_, fields) = stat.rsplit_once(')')?;
    Pid::from_raw(fields.split_whitespace().nth(2)?.parse().ok()?)
}

fn is_in_sandbox(pid: Pid) -> bool {
    fs::read_to_string(format!("/proc/{}/cgroup", pid.as_raw_nonzero())).is_ok_and(|text| {
        text.lines().any(|line| line.strip_prefix("0::").is_some_and(|path| path.contains(SANDBOX)))
    })
}
