//! Processes as /proc shows them.

use std::fs;
use std::path::PathBuf;

/// One process at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its pid.
    pub pid: u32,
    /// Its parent.
    pub ppid: u32,
    /// Its process group.
    pub pgid: u32,
    /// Its session.
    pub sid: u32,
    /// The letter of its state: `R`, `S`, `D`, `T`, `Z`, ...
    pub state: char,
    /// The name of its program, cut by the kernel to 15 bytes.
    pub comm: String,
    /// When it was started, in ticks since the boot; with the pid it is an identity.
    pub start_time: u64,
    /// How many threads it has.
    pub threads: u64,
    /// Processor time that it has used, in ticks.
    pub cpu_ticks: u64,
}

impl Process {
    /// The current state, or `None` if no process has that pid.
    pub fn read(pid: u32) -> Option<Self> {
        let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
        Self::parse(pid, &String::from_utf8_lossy(&stat))
    }

    /// All visible processes.
    pub fn all() -> Vec<Self> {
        all_pids().into_iter().filter_map(Self::read).collect()
    }

    /// Whether it has ended and waits to be reaped.
    pub fn is_zombie(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }

    /// Its command line with spaces between the arguments; empty for a zombie.
    pub fn cmdline(&self) -> String {
        let bytes = fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).trim_end_matches('\0').replace('\0', " ")
    }

    /// The name is in parentheses and may contain any of the separators, so fields are counted from its end.
    fn parse(pid: u32, stat: &str) -> Option<Self> {
        let (_, rest) = stat.split_once('(')?;
        let (comm, rest) = rest.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
        let id = |index: usize| fields.get(index)?.parse::<u32>().ok();
        Some(Self {
            pid,
            ppid: id(1)?,
            pgid: id(2)?,
            sid: id(3)?,
            state: fields.first()?.chars().next()?,
            comm: comm.to_owned(),
            start_time: number(19)?,
            threads: number(17)?,
            cpu_ticks: number(11)? + number(12)?,
        })
    }
}

/// The pids of all visible processes.
pub(crate) fn all_pids() -> Vec<u32> {
    fs::read_dir("/proc")
        .expect("/proc")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect()
}

/// Whether it exists and is not a zombie.
pub fn is_alive(pid: u32) -> bool {
    Process::read(pid).is_some_and(|process| !process.is_zombie())
}

/// The zombies whose parent is that process.
pub fn zombies_of(parent: u32) -> Vec<Process> {
    zombies_of_any(&[parent])
}

/// The zombies whose parent is one of those processes.
pub fn zombies_of_any(parents: &[u32]) -> Vec<Process> {
    let is_ours = |process: &Process| process.is_zombie() && parents.contains(&process.ppid);
    Process::all().into_iter().filter(is_ours).collect()
}

/// Its open descriptors and what they refer to, by number; empty if it is gone.
pub fn fds_of(pid: u32) -> Vec<(u32, PathBuf)> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { return Vec::new() };
    let mut found: Vec<(u32, PathBuf)> = entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            Some((entry.file_name().to_str()?.parse().ok()?, fs::read_link(entry.path()).ok()?))
        })
        .collect();
    found.sort();
    found
}

/// How many threads it has; 0 if it is gone.
pub fn threads_of(pid: u32) -> u64 {
    Process::read(pid).map_or(0, |process| process.threads)
}

/// The processor time that it has used, in ticks of 10 ms; 0 if it is gone.
pub fn cpu_ticks_of(pid: u32) -> u64 {
    Process::read(pid).map_or(0, |process| process.cpu_ticks)
}

/// Its resident memory in KiB; 0 if it is gone.
pub fn rss_of(pid: u32) -> u64 {
    kib(pid, "status", "VmRSS:")
}

/// Its proportional share of memory in KiB; 0 if it is gone.
pub fn pss_of(pid: u32) -> u64 {
    kib(pid, "smaps_rollup", "Pss:")
}

fn kib(pid: u32, file: &str, name: &str) -> u64 {
    field(pid, file, name)
        .and_then(|value| value.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

/// The value of one `Name: value` line of a file in the process's directory.
pub(crate) fn field(pid: u32, file: &str, name: &str) -> Option<String> {
    let text = fs::read(format!("/proc/{pid}/{file}")).ok()?;
    let text = String::from_utf8_lossy(&text);
    text.lines().find_map(|line| Some(line.strip_prefix(name)?.trim().to_owned()))
}

/// The pids in a file of the stub's `--pid-file`; empty if there is none.
pub fn pids_in(file: &std::path::Path) -> Vec<u32> {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}
