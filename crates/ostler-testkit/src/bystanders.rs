//! Bystanders: processes that look like the test's own and must not be touched.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use crate::process::{Process, field};
use crate::sandbox::command_in;
use crate::wait::wait_until;
use crate::{Cgroup, Sandbox, Token, User};

const START_LIMIT: Duration = Duration::from_secs(30);
const SIGNAL_STATE: [&str; 5] = ["SigPnd:", "ShdPnd:", "SigBlk:", "SigIgn:", "SigCgt:"];

/// Processes of the same name, user and switches, with their own cgroup and token: one in the process group of the test, one in a
/// group of its own, one session leader, one with a daemon.
///
/// Drop ends them.
#[derive(Debug)]
pub struct Bystanders {
    cgroup: Cgroup,
    children: Vec<Child>,
    /// Their state when all were up.
    before: BTreeMap<u32, Condition>,
}

/// State of a bystander that must not change.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Condition {
    start_time: u64,
    life: Life,
    group: u32,
    session: u32,
    signals: Vec<Option<String>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Runs,
    Stopped,
    Ended,
}

/// Process group or session of a bystander.
#[derive(Clone, Copy, Debug)]
enum Stand {
    SameGroup,
    OwnGroup,
    OwnSession,
    WithDaemon,
}

impl Bystanders {
    /// Starts bystanders without switches, as the user of the program under test, and waits until they are up.
    pub fn start(sandbox: &Sandbox, user: User) -> Self {
        Self::start_with(sandbox, user, &[])
    }

    /// The same with the switches of the stub that the test uses. They must leave it alive and its pids as they are.
    pub fn start_with(sandbox: &Sandbox, user: User, switches: &[&str]) -> Self {
        let token = Token::random();
        let cgroup = Cgroup::create(&format!("ostler-bystanders-{}", token.hex()));
        let mut them = Self { cgroup, children: Vec::new(), before: BTreeMap::new() };
        let stub = sandbox.reachable(&crate::binary("ostler-stub"));
        let stands = [Stand::SameGroup, Stand::OwnGroup, Stand::OwnSession, Stand::WithDaemon];
        let ready = stands.map(|stand| sandbox.file(&format!("{stand:?}-{}", token.hex())));
        for (stand, ready) in stands.into_iter().zip(&ready) {
            them.add(&token, user, (&stub, switches), stand, ready);
        }
        for path in &ready {
            wait_until("the bystanders are up", START_LIMIT, || path.exists());
        }
        them.before = conditions(them.cgroup.pids());
        them
    }

    /// All pids, including the daemon's.
    pub fn pids(&self) -> Vec<u32> {
        self.before.keys().copied().collect()
    }

    /// Their cgroup.
    pub fn cgroup(&self) -> &Cgroup {
        &self.cgroup
    }

    /// One line per change; empty if nothing happened to them.
    pub fn harm(&self) -> Vec<String> {
        let after = conditions(self.before.keys().copied());
        let mut lines = Vec::new();
        for (pid, before) in &self.before {
            match after.get(pid) {
                Some(now) if now == before => {}
                Some(now) => lines.push(format!("bystander {pid} was {before:?}, is {now:?}")),
                None => lines.push(format!("bystander {pid} is gone")),
            }
        }
        lines
    }

    /// Panics unless each is the same process in the same state.
    pub fn assert_untouched(&self) {
        let harm = self.harm();
        assert!(harm.is_empty(), "bystanders were touched:\n{}", harm.join("\n"));
    }

    fn add(
        &mut self,
        token: &Token,
        user: User,
        (stub, switches): (&Path, &[&str]),
        stand: Stand,
        ready: &Path,
    ) {
        let mut command = command_in(&[self.cgroup.path()], token, &[], user, OsStr::new(stub));
        command.args(switches).arg("--ready").arg(ready);
        match stand {
            Stand::SameGroup => {}
            Stand::OwnGroup => {
                command.process_group(0);
            }
            Stand::OwnSession => {
                command.arg("--new-session");
            }
            Stand::WithDaemon => {
                command.arg("--double-fork");
            }
        }
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        self.children.push(command.spawn().expect("a bystander"));
    }
}

fn conditions(pids: impl IntoIterator<Item = u32>) -> BTreeMap<u32, Condition> {
    pids.into_iter().filter_map(|pid| Some((pid, Condition::read(pid)?))).collect()
}

impl Condition {
    fn read(pid: u32) -> Option<Self> {
        let process = Process::read(pid)?;
        let life = match process.state {
            'T' | 't' => Life::Stopped,
            'Z' | 'X' => Life::Ended,
            _ => Life::Runs,
        };
        Some(Self {
            start_time: process.start_time,
            life,
            group: process.pgid,
            session: process.sid,
            signals: SIGNAL_STATE.iter().map(|name| field(pid, "status", name)).collect(),
        })
    }
}

impl Drop for Bystanders {
    fn drop(&mut self) {
        let _ = self.cgroup.end();
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
