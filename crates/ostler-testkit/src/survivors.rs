//! The oracle: finds everything that is left of a test.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::fs;
use std::path::{Path, PathBuf};

use crate::Sandbox;
use crate::process::{Process, all_pids};

/// One process that is left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survivor {
    /// The process.
    pub process: Process,
    /// Its command line.
    pub cmdline: String,
    /// Whether it is in the test's cgroup or below.
    pub in_cgroup: bool,
    /// Whether it carries the test's token.
    pub has_token: bool,
}

/// Everything that is left of a test at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survivors {
    /// The living processes, stopped ones among them.
    pub processes: Vec<Survivor>,
    /// The ended processes of the test's cgroup that their parent has not reaped. Those of the machine's init are not
    /// counted: it reaps when it likes, and no other process can.
    pub zombies: Vec<Process>,
    /// The cgroups below the test's, in every hierarchy where it has one.
    pub cgroups: Vec<PathBuf>,
    /// The files in the state and runtime directories, except for logs, which outlive their servers.
    pub files: Vec<PathBuf>,
    /// The kernel counts a living process in the test's cgroup, also when its pid changed while the list was read.
    pub is_populated: bool,
}

impl Survivors {
    pub(crate) fn find(sandbox: &Sandbox) -> Self {
        let mut files = files_below(&sandbox.state());
        files.retain(|file| !file.starts_with(sandbox.state().join("ostler/logs")));
        files.extend(files_below(&sandbox.runtime()));
        Self {
            processes: processes(sandbox),
            zombies: zombies(sandbox),
            cgroups: sandbox.cgroups_left(),
            files,
            is_populated: sandbox.cgroup().is_populated(),
        }
    }

    /// Whether nothing is left.
    pub fn is_none(&self) -> bool {
        self.has_no_process() && self.cgroups.is_empty() && self.files.is_empty()
    }

    /// Whether there is no process and no zombie; files and cgroups may be.
    pub fn has_no_process(&self) -> bool {
        self.processes.is_empty() && self.zombies.is_empty() && !self.is_populated
    }

    /// The pids of the living processes.
    pub fn pids(&self) -> Vec<u32> {
        self.processes.iter().map(|survivor| survivor.process.pid).collect()
    }
}

impl Display for Survivors {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.is_none() {
            return writeln!(f, "nothing");
        }
        for survivor in &self.processes {
            writeln!(f, "{survivor}")?;
        }
        if self.is_populated && self.processes.is_empty() {
            writeln!(f, "a process in the cgroup that changes its pid faster than it can be read")?;
        }
        for Process { pid, ppid, comm, .. } in &self.zombies {
            writeln!(f, "zombie {pid} ({comm}) of parent {ppid}")?;
        }
        for path in &self.cgroups {
            writeln!(f, "cgroup {}", path.display())?;
        }
        for path in &self.files {
            writeln!(f, "file {}", path.display())?;
        }
        Ok(())
    }
}

impl Display for Survivor {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Process { pid, ppid, pgid, sid, state, comm, .. } = &self.process;
        write!(f, "process {pid} ({comm}) state {state} parent {ppid} group {pgid} session {sid}")?;
        let found = match (self.in_cgroup, self.has_token) {
            (true, true) => "by cgroup and token",
            (true, false) => "by cgroup",
            (false, _) => "by token",
        };
        write!(f, ", found {found}: {}", self.cmdline)
    }
}

/// The union of the cgroup's members and the token's carriers.
fn processes(sandbox: &Sandbox) -> Vec<Survivor> {
    let mut marks: BTreeMap<u32, (bool, bool)> = BTreeMap::new();
    for pid in sandbox.cgroup().pids() {
        marks.entry(pid).or_default().0 = true;
    }
    for pid in all_pids().into_iter().filter(|pid| sandbox.token().is_carried_by(*pid)) {
        marks.entry(pid).or_default().1 = true;
    }
    marks
        .into_iter()
        .filter_map(|(pid, (by_group, by_token))| survivor(pid, by_group, by_token))
        .collect()
}

/// `None` if it ended since it was listed.
fn survivor(pid: u32, in_cgroup: bool, has_token: bool) -> Option<Survivor> {
    let process = Process::read(pid).filter(|process| !process.is_zombie())?;
    let cmdline = process.cmdline();
    Some(Survivor { process, cmdline, in_cgroup, has_token })
}

/// A zombie has no environment and is in no list of members, but the kernel still says where it was.
fn zombies(sandbox: &Sandbox) -> Vec<Process> {
    let is_ours = |process: &Process| {
        process.is_zombie() && process.ppid != 1 && sandbox.cgroup().contains(process.pid)
    };
    Process::all().into_iter().filter(is_ours).collect()
}

/// Everything that is not a directory: an empty directory is no residue.
fn files_below(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let mut found = Vec::new();
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(files_below(&entry.path()));
        } else {
            found.push(entry.path());
        }
    }
    found
}
