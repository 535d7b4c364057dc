//! A private container engine for one test, which may be killed, stopped and restarted.

use std::fs::{self, File};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::docker::Docker;
use crate::process::{Process, all_pids};
use crate::wait::{poll, wait_until};

/// Ten times the start or stop time of an engine.
const PATIENCE: Duration = Duration::from_mins(1);
/// Its networks are from a range of its own, because another engine may run beside it.
const NETWORKS: &str = "base=10.213.0.0/16,size=24";

/// A private engine. Drop ends it with all its containers and removes its files.
#[derive(Debug)]
pub struct Engine {
    daemon: Option<Child>,
    /// Further arguments of `dockerd`.
    words: Vec<String>,
    docker: Docker,
    directory: TempDir,
}

impl Engine {
    /// Starts one that has the [`IMAGE`](crate::IMAGE). Panics with the end of its log if it can't.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// The same with further words for `dockerd`.
    pub fn start_with(words: &[&str]) -> Self {
        let directory = tempfile::Builder::new().prefix("ostler-test-engine-").tempdir();
        let directory = directory.expect("a directory");
        let words = words.iter().map(|&word| word.to_owned()).collect();
        let docker = Docker::at(directory.path().join("docker.sock"));
        let mut engine = Self { daemon: None, words, docker, directory };
        engine.begin();
        engine.import_image();
        engine
    }

    /// Starts it again after [`kill`](Self::kill) or [`stop`](Self::stop), and waits until it answers.
    pub fn begin(&mut self) {
        assert!(self.daemon.is_none(), "the engine runs");
        let log = File::options().create(true).append(true).open(self.path("log"));
        let log = log.expect("the engine's log");
        let mut command = Command::new("dockerd");
        command.args(["--host", &self.host()]).arg("--data-root").arg(self.path("data"));
        command.arg("--exec-root").arg(self.path("exec")).arg("--pidfile").arg(self.path("pid"));
        // The engine of all tests has set up the machine's network already.
        command.args(["--bridge", "none", "--iptables=false", "--ip6tables=false"]);
        command.args(["--ip-masq=false", "--default-address-pool", NETWORKS]);
        command.args(["--shutdown-timeout", "2"]).args(&self.words);
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("the log")).stderr(log);
        self.daemon = Some(command.spawn().expect("dockerd starts"));
        let answers =
            || self.docker.command().arg("version").output().is_ok_and(|o| o.status.success());
        assert!(poll(PATIENCE, answers).is_some(), "no engine:\n{}", self.end_of_log());
    }

    /// Ends it with KILL, and its own helper with it. Containers run on.
    pub fn kill(&mut self) {
        let mut daemon = self.daemon.take().expect("the engine runs");
        let is_helper = |process: &Process| process.ppid == daemon.id();
        let helpers: Vec<Process> = Process::all().into_iter().filter(is_helper).collect();
        daemon.kill().expect("kill");
        daemon.wait().expect("wait");
        // The kernel is asked to kill them, too, but an engine that starts meanwhile would use them.
        let is_there = |one: &Process| {
            Process::read(one.pid).is_some_and(|now| now.start_time == one.start_time)
        };
        wait_until("the engine's helper ends", PATIENCE, || !helpers.iter().any(is_there));
    }

    /// Ends it as a service manager would. Containers end, too.
    pub fn stop(&mut self) {
        let mut daemon = self.daemon.take().expect("the engine runs");
        signal(&daemon, Signal::TERM);
        wait_until("the engine ends", PATIENCE, || daemon.try_wait().expect("wait"));
    }

    /// Freezes it: it accepts calls and does not answer, until [`thaw`](Self::thaw).
    pub fn freeze(&self) {
        signal(self.daemon.as_ref().expect("the engine runs"), Signal::STOP);
    }

    /// Lets it go on.
    pub fn thaw(&self) {
        signal(self.daemon.as_ref().expect("the engine runs"), Signal::CONT);
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn end_of_log(&self) -> String {
        let log = fs::read_to_string(self.path("log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}

impl Deref for Engine {
    type Target = Docker;

    fn deref(&self) -> &Docker {
        &self.docker
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            signal(&daemon, Signal::CONT);
            signal(&daemon, Signal::TERM);
            if poll(PATIENCE, || daemon.try_wait().ok().flatten()).is_none() {
                let _ = daemon.kill();
                let _ = daemon.wait();
            }
        }
        poll(PATIENCE, || end_all_of(self.directory.path()));
        unmount_all_below(self.directory.path());
    }
}

/// Kills processes whose command line names the engine's directory, and their descendants: the engine's
/// helpers and, if it was killed, its containers. True once there is none.
fn end_all_of(directory: &Path) -> bool {
    let name = directory.to_str().expect("a path");
    let is_its = |pid: &u32| {
        fs::read(format!("/proc/{pid}/cmdline"))
            .is_ok_and(|line| String::from_utf8_lossy(&line).contains(name))
    };
    let helpers: Vec<u32> = all_pids().into_iter().filter(is_its).collect();
    let parents = |pid: &u32| Process::read(*pid).is_some_and(|p| helpers.contains(&p.ppid));
    let below = all_pids().into_iter().filter(parents);
    for pid in below.chain(helpers.iter().copied()) {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a pid");
        let _ = kill_process(pid, Signal::KILL);
    }
    helpers.is_empty()
}

/// An engine that was killed leaves file systems and network name spaces mounted.
pub(crate) fn unmount_all_below(directory: &Path) {
    let mounts = fs::read_to_string("/proc/mounts").expect("the mounts");
    let places = mounts.lines().filter_map(|line| line.split(' ').nth(1)).map(Path::new);
    let below: Vec<&Path> = places.filter(|place| place.starts_with(directory)).collect();
    for place in below.into_iter().rev() {
        unmount(place, UnmountFlags::DETACH).expect("unmount");
    }
}

fn signal(daemon: &Child, signal: Signal) {
    let pid = i32::try_from(daemon.id()).ok().and_then(Pid::from_raw).expect("a pid");
    kill_process(pid, signal).expect("a signal to the engine");
}
