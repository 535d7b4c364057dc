//! Setting of a lifecycle test: a sandbox, a user, a level of containment, and bystanders.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};
use serde_json::Value;

use crate::{Bystanders, Host, Launched, Process, Sandbox, User, binary, is_alive, wait_until};

/// Ten times the promised time, because the machine may be loaded.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// Grace of wrapped servers; short, to save time.
const GRACE: &str = "300ms";

/// A sandbox, the user that runs ostler in it, and the level of containment that ostler must report.
#[derive(Debug)]
pub struct Stage {
    // Dropped first: nothing else ends bystanders when a test fails.
    bystanders: Bystanders,
    /// The sandbox.
    pub sandbox: Sandbox,
    /// User that runs ostler.
    pub user: User,
    level: &'static str,
}

impl Stage {
    /// Root, which can create a cgroup leaf.
    pub fn leaf() -> Self {
        let sandbox = Sandbox::new();
        Self::new(sandbox, User::Root, "leaf")
    }

    /// An unprivileged user, which cannot.
    pub fn tree() -> Self {
        let sandbox = Sandbox::new();
        let nobody = sandbox.nobody();
        Self::new(sandbox, nobody, "tree")
    }

    /// Root at `strict`: a PID namespace and a cgroup leaf.
    pub fn strict() -> Self {
        let sandbox = Sandbox::new();
        Self::new(sandbox, User::Root, "strict")
    }

    /// An unprivileged user at `strict`: a user namespace, and no leaf.
    pub fn strict_user() -> Self {
        let sandbox = Sandbox::new();
        let nobody = sandbox.nobody();
        Self::new(sandbox, nobody, "strict")
    }

    /// Root in a sandbox where limits can be looked at, at this level.
    pub fn limited(level: &'static str) -> Self {
        Self::new(Sandbox::with_controllers(), User::Root, level)
    }

    /// An unprivileged user with only the cgroups of limits delegated.
    pub fn limited_user() -> Self {
        let sandbox = Sandbox::with_controllers();
        let nobody = sandbox.nobody();
        sandbox.delegate_controllers_to(sandbox.token().uid());
        Self::new(sandbox, nobody, "tree")
    }

    fn new(sandbox: Sandbox, user: User, level: &'static str) -> Self {
        let bystanders = Bystanders::start(&sandbox, user);
        Self { bystanders, sandbox, user, level }
    }

    /// Processes that must stay untouched.
    pub fn bystanders(&self) -> &Bystanders {
        &self.bystanders
    }

    /// The level that is asked for and must be reported: `leaf`, `tree` or `strict`.
    pub fn level(&self) -> &'static str {
        self.level
    }

    /// A program as the stage's user.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        self.sandbox.command_as(self.user, program)
    }

    /// `ostler run` up to the `--`.
    pub fn run_words(&self) -> Vec<String> {
        self.run_words_with(&[])
    }

    /// The same with further options.
    pub fn run_words_with(&self, options: &[&str]) -> Vec<String> {
        let ostler = text(self.sandbox.reachable(&binary("ostler")));
        let words = ["run", "--verbose", "--grace", GRACE, "--containment", self.level];
        let words = words.iter().chain(options).chain(&["--"]).map(ToString::to_string);
        std::iter::once(ostler).chain(words).collect()
    }

    /// `ostler run` with a server's command.
    pub fn run(&self, words: &[impl AsRef<OsStr>]) -> Command {
        let own = self.run_words();
        let mut command = self.command(&own[0]);
        command.args(&own[1..]).args(words);
        command
    }

    /// The `--dump` of a stub that is started by `prefix`.
    pub fn dump_of(&self, prefix: &[String]) -> Value {
        let file = self.sandbox.file("dump");
        let words = [prefix, &self.stub_words(&["--exit-at-once", "--dump"])].concat();
        let mut command = self.command(&words[0]);
        command.args(&words[1..]).arg(&file).current_dir("/usr").env("EXOTIC", "a=b\n\u{1F434}");
        let status = command.stdin(Stdio::null()).status().expect("a stub");
        assert!(status.success(), "{words:?}: {status}");
        let dump = std::fs::read(file).expect("a dump");
        serde_json::from_slice(&dump).expect("a dump in JSON")
    }

    /// The stub's path and the switches for [`Sandbox::wait_ready`] and [`Sandbox::pids`].
    pub fn stub_words(&self, switches: &[&str]) -> Vec<String> {
        let stub = text(self.sandbox.reachable(&binary("ostler-stub")));
        let (ready, pids) = (text(self.sandbox.file("ready")), text(self.sandbox.file("pids")));
        let own = [stub, "--ready".into(), ready, "--pid-file".into(), pids];
        own.into_iter().chain(switches.iter().map(ToString::to_string)).collect()
    }

    /// A wrapped stub with these switches, up and running.
    pub fn wrap(&self, switches: &[&str]) -> Launched {
        self.wrap_words(&self.stub_words(switches))
    }

    /// The same for a command of any kind that starts [`Stage::stub_words`].
    pub fn wrap_words(&self, words: &[impl AsRef<OsStr>]) -> Launched {
        let _ = std::fs::remove_file(self.sandbox.file("ready"));
        let run = Launched::start(&mut self.run(words));
        self.sandbox.wait_ready(PATIENCE);
        let expected = format!("containment {}", self.level);
        wait_until("the level is reported", PATIENCE, || run.stderr().contains(&expected));
        run
    }

    /// A host that embeds the library and holds `count` stubs with these switches in turn.
    pub fn host(&self, count: usize, switches: &[&str], options: &[&str]) -> Host {
        let mut command = self.command(self.sandbox.reachable(&binary("ostler-host")));
        command.arg("--program").arg(self.sandbox.reachable(&binary("ostler-stub")));
        for switches in switches {
            command.args(["--server", switches]);
        }
        command.args(["--count", &count.to_string()]).args(options);
        let mut host = Host(Launched::start(&mut command));
        host.expect("ready");
        host
    }

    /// The guardians that run in the sandbox.
    pub fn guardians(&self) -> Vec<u32> {
        self.named("ostler-guardian")
    }

    /// The processes of this name in the sandbox.
    pub fn named(&self, name: &str) -> Vec<u32> {
        let pids = self.sandbox.cgroup().pids().into_iter();
        pids.filter(|pid| Process::read(*pid).is_some_and(|p| p.comm == name)).collect()
    }

    /// A signal to a process of the sandbox.
    pub fn signal(&self, pid: u32, signal: Signal) {
        assert!(self.sandbox.cgroup().contains(pid), "{pid} is not in the sandbox");
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a pid");
        kill_process(pid, signal).expect("kill");
    }

    /// The same for a process that may have ended and whose pid may have been reused.
    pub fn signal_if_there(&self, pid: u32, signal: Signal) {
        let target = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a pid");
        let Ok(handle) = pidfd_open(target, PidfdFlags::empty()) else { return };
        if self.sandbox.cgroup().contains(pid) {
            // It may have ended since.
            let _ = pidfd_send_signal(&handle, signal);
        }
    }

    /// Asserts that nothing is left now: for commands that claim to have waited.
    pub fn assert_empty_now(&self) {
        let left = self.sandbox.survivors();
        assert!(left.is_none(), "left although it is said to be gone:\n{left}");
        self.bystanders.assert_untouched();
    }

    /// Waits until nothing is left, without any help.
    pub fn expect_empty(&self) {
        self.sandbox.expect_no_survivors(PATIENCE);
        self.bystanders.assert_untouched();
    }

    /// Asserts that no process and no cgroup is left; ledger entries that a dead owner could not settle are
    /// settled by `ostler reap`.
    pub fn expect_empty_but_for_the_ledger(&self) {
        wait_until("no process and no cgroup is left", PATIENCE, || {
            let left = self.sandbox.survivors();
            left.has_no_process() && left.cgroups.is_empty()
        });
        self.ostler(&["reap", "--yes"]);
        self.expect_empty();
    }

    /// The stdout of an ostler command as the stage's user. Panics if the command fails.
    pub fn ostler(&self, words: &[&str]) -> String {
        let output = self.try_ostler(words);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "ostler {words:?}: {}: {stderr}", output.status);
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    /// The same as JSON.
    pub fn ostler_json(&self, words: &[&str]) -> Value {
        let text = self.ostler(words);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("not JSON ({error}): {text}"))
    }

    /// The exit status and the output of an ostler command.
    pub fn try_ostler(&self, words: &[&str]) -> Output {
        self.command(&self.run_words()[0]).args(words).output().expect("ostler")
    }

    /// The directories of the owners whose ledgers are in the state directory.
    pub fn ledgers(&self) -> Vec<PathBuf> {
        let owners = self.sandbox.state().join("ostler/owners");
        let entries = std::fs::read_dir(owners).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    }

    /// The guardians of one owner.
    pub fn guardians_of(&self, owner: u32) -> Vec<u32> {
        let is_its = |pid: &u32| Process::read(*pid).is_some_and(|p| p.ppid == owner);
        self.guardians().into_iter().filter(is_its).collect()
    }

    /// Ends an owner and its guardians so that none of them can react to the other's death: the processes that
    /// its servers have caused are left to the next sweep.
    pub fn abandon(&self, owner: &mut Launched) {
        let all: Vec<u32> =
            std::iter::once(owner.pid()).chain(self.guardians_of(owner.pid())).collect();
        for signal in [Signal::STOP, Signal::KILL] {
            for pid in &all {
                self.signal(*pid, signal);
            }
            let is_heeded = |pid: &u32| Process::read(*pid).is_none_or(|p| "TZX".contains(p.state));
            wait_until("they are held", PATIENCE, || all.iter().all(is_heeded));
        }
        self.wait_exit(owner);
        wait_until("they are dead", PATIENCE, || !all.iter().any(|pid| is_alive(*pid)));
    }

    /// [`Launched::wait_exit`] with patience.
    pub fn wait_exit(&self, program: &mut Launched) -> std::process::ExitStatus {
        program.wait_exit(PATIENCE)
    }
}

fn text(path: PathBuf) -> String {
    path.into_os_string().into_string().expect("a path in UTF-8")
}
