//! Reads the process table from `/proc`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use ostler::{Identity, Process};
use rustix::param::clock_ticks_per_second;
use rustix::process::geteuid;

use super::diagnostics::SocketDiagnostics;
use super::hosts::{MARKS, NPX_SCRIPT};
use super::listening::Listening;
use super::names::{is_wrapper, mcp_server};
use super::streams::{Descriptors, Standard};
use super::table::{Seen, Serving, Stream, Table};

/// Scans all processes once. Leaves their memory at zero, which `measure` fills in.
pub(crate) fn scan() -> Table {
    let scanner = Scanner::new();
    Table::new(Process::all().iter().filter_map(|process| scanner.look(process)))
}

/// Measures the memory of MCP servers and their descendants. Kept apart because it is the slowest query to the kernel.
pub(crate) fn measure(table: &mut Table) {
    let servers = table.all().filter(|one| one.is_ours && may_matter(one));
    let trees: BTreeSet<Identity> =
        servers.flat_map(|one| table.tree(one.pid())).map(|one| one.identity).collect();
    for identity in trees {
        let process = Process::with_pid(identity.pid).filter(|now| now.identity() == identity);
        if let Some(process) = process {
            table.set_memory(identity.pid, memory_of(&process));
        }
    }
}

fn may_matter(process: &Seen) -> bool {
    let Seen { words, variables, .. } = process;
    mcp_server(words).is_some() || is_wrapper(words) || variables.contains_key(NPX_SCRIPT)
}

/// State shared by the queries for all processes.
struct Scanner {
    uid: u32,
    namespace: Option<PathBuf>,
    /// Time since boot, in milliseconds.
    uptime: u64,
    descriptors: Descriptors,
    diagnostics: Option<SocketDiagnostics>,
    listening: Listening,
}

impl Scanner {
    fn new() -> Self {
        Self {
            uid: geteuid().as_raw(),
            namespace: namespace_of("self"),
            uptime: uptime(),
            descriptors: Descriptors::read(Process::all().iter().map(|process| process.pid)),
            diagnostics: SocketDiagnostics::open().ok(),
            listening: Listening::read(),
        }
    }

    fn look(&self, process: &Process) -> Option<Seen> {
        let pid = process.pid;
        let words = process.words();
        let is_ours = self.is_ours(pid);
        let variables = if is_ours { marks_of(process) } else { BTreeMap::new() };
        let mut seen = Seen {
            identity: process.identity(),
            parent: process.parent(),
            name: process.name.clone(),
            is_zombie: process.is_zombie(),
            session: session_of(pid)?,
            stdin: Stream::Other,
            stdout: Stream::Other,
            serving: Serving::No,
            memory: 0,
            age: self.uptime.saturating_sub(process.start * 1000 / clock_ticks_per_second().max(1)),
            words,
            is_ours,
            variables,
        };
        if is_ours {
            seen.serving = self.serving(pid);
        }
        if is_ours && may_matter(&seen) {
            seen.stdin = self.stream(pid, Standard::Input);
            seen.stdout = self.stream(pid, Standard::Output);
        }
        // The pid may have been reused meanwhile; then the values are of two processes and are dropped.
        process.is_still_there().then_some(seen)
    }

    fn stream(&self, pid: i32, which: Standard) -> Stream {
        self.descriptors.stream(pid, which, self.diagnostics.as_ref())
    }

    fn is_ours(&self, pid: i32) -> bool {
        let is_owner =
            fs::metadata(format!("/proc/{pid}")).is_ok_and(|found| found.uid() == self.uid);
        is_owner && self.namespace.is_some() && namespace_of(&pid.to_string()) == self.namespace
    }

    fn serving(&self, pid: i32) -> Serving {
        self.listening.of(self.descriptors.sockets_of(pid))
    }
}

/// Whether the command lines of all users are visible, so that a client that is not found does not exist.
pub(crate) fn sees_everyone() -> bool {
    fs::read("/proc/1/cmdline").is_ok()
}

fn namespace_of(pid: &str) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/ns/pid")).ok()
}

fn marks_of(process: &Process) -> BTreeMap<&'static str, String> {
    let environment = fs::read(format!("/proc/{}/environ", process.pid)).unwrap_or_default();
    let mut found = BTreeMap::new();
    let names = MARKS.iter().map(|(name, _)| *name);
    let names: Vec<&'static str> = names.chain([NPX_SCRIPT, ostler::INSTANCE_VARIABLE]).collect();
    for variable in environment.split(|byte| *byte == 0) {
        let variable = String::from_utf8_lossy(variable);
        let Some((name, value)) = variable.split_once('=') else { continue };
        if let Some(name) = names.iter().find(|known| **known == name) {
            found.insert(*name, value.to_owned());
        }
    }
    found
}

fn session_of(pid: i32) -> Option<i32> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let close = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(stat.get(close + 1..)?).ok()?;
    rest.split_ascii_whitespace().nth(3)?.parse().ok()
}

/// Proportional set size in bytes, or resident memory if the kernel does not provide it.
fn memory_of(process: &Process) -> u64 {
    let rollup = fs::read_to_string(format!("/proc/{}/smaps_rollup", process.pid));
    let rollup = rollup.unwrap_or_default();
    let pss = rollup.lines().find_map(|line| line.strip_prefix("Pss:"));
    let kilobytes = pss.and_then(|text| text.split_ascii_whitespace().next()?.parse::<u64>().ok());
    kilobytes.map_or_else(|| process.resident_memory(), |kilobytes| kilobytes * 1024)
}

fn uptime() -> u64 {
    let text = fs::read_to_string("/proc/uptime").unwrap_or_default();
    let (seconds, hundredths) =
        text.split(' ').next().and_then(|text| text.split_once('.')).unwrap_or_default();
    let number = |text: &str| text.parse::<u64>().unwrap_or_default();
    number(seconds) * 1000 + number(hundredths) * 10
}
