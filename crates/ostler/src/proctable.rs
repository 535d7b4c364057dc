//! The process table: reads `/proc`, and signals processes safely across pid reuse.
//!
//! A [`Process`] is a snapshot. Before it sends a signal it opens a pidfd and checks that the pid still has the same
//! start time; the pidfd can't change its meaning afterwards, so no signal ever reaches another process.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;

pub(crate) use crate::identity::{Identity, Process};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

impl Identity {
    /// Identity of the process that has this pid now.
    pub fn of(pid: i32) -> Option<Self> {
        Process::with_pid(pid).map(|process| process.identity())
    }

    /// Identity of this process.
    pub fn own() -> Option<Self> {
        Self::of(std::process::id().cast_signed())
    }

    /// Whether this process is alive; a zombie is not.
    pub fn is_alive(self) -> bool {
        Process::with_pid(self.pid).is_some_and(|now| now.start == self.start && !now.is_zombie())
    }
}

impl Process {
    /// Pid and start time.
    pub fn identity(&self) -> Identity {
        Identity { pid: self.pid, start: self.start }
    }

    /// The process that has this pid now.
    pub fn with_pid(pid: i32) -> Option<Self> {
        let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
        // The name may contain spaces and brackets, so it ends at the last bracket.
        let (open, close) =
            (text.iter().position(|b| *b == b'(')?, text.iter().rposition(|b| *b == b')')?);
        let name = String::from_utf8_lossy(text.get(open + 1..close)?).into_owned();
        let rest = std::str::from_utf8(text.get(close + 1..)?).ok()?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        Some(Self {
            pid,
            name,
            state: fields.first()?.chars().next()?,
            parent: fields.get(1)?.parse().ok()?,
            start: fields.get(19)?.parse().ok()?,
        })
    }

    /// Pids of the children of a process, zombies included.
    pub(crate) fn children_of(parent: i32) -> Vec<i32> {
        children(parent)
    }

    /// All descendants of `root`, parents before children, without `root` itself.
    pub fn descendants_of(root: i32) -> Vec<Self> {
        Self::descendants_but(root, |_| false)
    }

    /// The same without `excluded` processes and their descendants.
    pub(crate) fn descendants_but(root: i32, excluded: impl Fn(&Self) -> bool) -> Vec<Self> {
        let mut found: Vec<Self> = Self::with_pid(root).into_iter().collect();
        let mut next = 0;
        while let Some(parent) = found.get(next).cloned() {
            next += 1;
            let children = children(parent.pid);
            // The pid of the parent or of a child may have been recycled between two reads.
            if !children.is_empty() && parent.is_still_there() {
                let seen: Vec<i32> = found.iter().map(|process| process.pid).collect();
                let fresh = children.into_iter().filter(|pid| !seen.contains(pid));
                let fresh = fresh.filter_map(Self::with_pid).filter(|c| c.parent == parent.pid);
                found.extend(fresh.filter(|child| !excluded(child)));
            }
        }
        found.drain(..found.len().min(1));
        found
    }

    /// All processes that were started with `variable` in their environment, with its value.
    pub fn carrying(variable: &str) -> Vec<(Self, String)> {
        // Checked again afterwards: the environment must be that of the process in the snapshot.
        pids()
            .filter_map(|pid| Some((Self::with_pid(pid)?, value_in(pid, variable)?)))
            .filter(|(process, _)| process.is_still_there())
            .collect()
    }

    /// All processes that this user can see.
    pub fn all() -> Vec<Self> {
        pids().filter_map(Self::with_pid).collect()
    }

    /// The value of `variable` in the environment that the process was started with.
    pub fn variable(&self, variable: &str) -> Option<String> {
        value_in(self.pid, variable)
    }

    /// All processes whose `argv[0]` is `name`, with their arguments.
    pub(crate) fn called(name: &str) -> Vec<(Self, Vec<String>)> {
        let is_called = |words: &Vec<String>| words.first().is_some_and(|first| first == name);
        pids()
            .filter_map(|pid| Some((Self::with_pid(pid)?, words_of(pid)?)))
            .filter(|(process, words)| is_called(words) && process.is_still_there())
            .collect()
    }

    /// The arguments of the process, `argv[0]` included. They may contain secrets.
    pub fn words(&self) -> Vec<String> {
        words_of(self.pid).unwrap_or_default()
    }

    /// Parent, grandparent and so on. Ends at a parent in another PID namespace, or one that exits meanwhile.
    pub(crate) fn ancestors(&self) -> impl Iterator<Item = Self> {
        std::iter::successors(Self::with_pid(self.parent), |above| Self::with_pid(above.parent))
    }

    /// Whether it has ended and its parent has not reaped it.
    pub fn is_zombie(&self) -> bool {
        self.state == 'Z'
    }

    /// Resident memory, in bytes.
    pub fn resident_memory(&self) -> u64 {
        let pages = fs::read_to_string(format!("/proc/{}/statm", self.pid)).ok();
        let pages = pages.and_then(|text| text.split(' ').nth(1)?.parse::<u64>().ok());
        pages.unwrap_or(0) * rustix::param::page_size() as u64
    }

    /// The command line, which may contain secrets.
    pub fn command_line(&self) -> String {
        let words = fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        let words: Vec<_> = words.split(|b| *b == 0).map(String::from_utf8_lossy).collect();
        words.join(" ").trim_end().to_owned()
    }

    /// Parent's pid at the time of the snapshot.
    pub fn parent(&self) -> i32 {
        self.parent
    }

    /// Sends SIGTERM, if the process of the snapshot still exists. `Ok(false)`: it is gone.
    pub fn ask(&self) -> io::Result<bool> {
        self.signal(Signal::TERM)
    }

    /// Sends `signal`, if the process of the snapshot still exists. `Ok(false)`: it is gone.
    pub(crate) fn signal(&self, signal: Signal) -> io::Result<bool> {
        let Some(handle) = self.handle()? else { return Ok(false) };
        match pidfd_send_signal(handle, signal) {
            Ok(()) => Ok(true),
            Err(rustix::io::Errno::SRCH) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Sends SIGKILL, if the process of the snapshot still exists. `Ok(false)`: it is gone.
    pub fn kill(&self) -> io::Result<bool> {
        self.signal(Signal::KILL)
    }

    /// A pidfd of the process in the snapshot. The start time is checked after the pidfd was opened, so a recycled pid
    /// is noticed.
    fn handle(&self) -> io::Result<Option<OwnedFd>> {
        let Some(pid) = Pid::from_raw(self.pid) else { return Ok(None) };
        let handle = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(handle) => handle,
            Err(rustix::io::Errno::SRCH) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        Ok(self.is_still_there().then_some(handle))
    }

    /// Whether the process is still in the process table, possibly as a zombie.
    pub fn is_still_there(&self) -> bool {
        Self::with_pid(self.pid).is_some_and(|now| now.start == self.start)
    }
}

/// Id of the current boot. Pids and start times are comparable only within one boot.
pub(crate) fn boot_id() -> io::Result<String> {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|id| id.trim().to_owned())
}

fn value_in(pid: i32, variable: &str) -> Option<String> {
    let env = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let mut variables = env.split(|b| *b == 0);
    let value = variables.find_map(|v| v.strip_prefix(variable.as_bytes())?.strip_prefix(b"="));
    String::from_utf8(value?.to_vec()).ok()
}

fn words_of(pid: i32) -> Option<Vec<String>> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let words = line.strip_suffix(b"\0")?.split(|b| *b == 0);
    Some(words.map(|word| String::from_utf8_lossy(word).into_owned()).collect())
}

fn children(parent: i32) -> Vec<i32> {
    if !fs::exists("/proc/thread-self/children").unwrap_or(false) {
        return children_by_scan(parent);
    }
    let tasks = fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten();
    let lists = tasks.flat_map(|task| fs::read_to_string(task.path().join("children")));
    let pids =
        |list: String| list.split_ascii_whitespace().flat_map(str::parse).collect::<Vec<_>>();
    lists.flat_map(pids).collect()
}

/// For kernels without `/proc/PID/task/TID/children`.
fn children_by_scan(parent: i32) -> Vec<i32> {
    pids()
        .filter(|pid| Process::with_pid(*pid).is_some_and(|process| process.parent == parent))
        .collect()
}

fn pids() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l07_a_stale_record_never_reaches_the_process_that_has_the_pid_now() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let now = Process::with_pid(pid).unwrap();
        let stale = Process { start: now.start - 1, ..now.clone() };
        assert!(!stale.signal(Signal::KILL).unwrap());
        assert!(child.try_wait().unwrap().is_none());

        assert!(now.signal(Signal::KILL).unwrap());
        child.wait().unwrap();
        assert!(!now.signal(Signal::KILL).unwrap());
    }

    #[test]
    fn both_ways_of_finding_children_agree() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let (own, pid) = (i32::try_from(std::process::id()).unwrap(), child.id().cast_signed());
        assert!(children(own).contains(&pid));
        assert!(children_by_scan(own).contains(&pid));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
