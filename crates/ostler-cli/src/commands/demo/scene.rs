//! One scene: a client starts a rude server, and one of them is ended.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, BufRead, BufReader};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use ostler::{InstanceId, Process};
use rustix::process::{Pid, Signal, kill_process};

/// Five processes: the server, a child, a child in its own session, a daemon, and the sleep that the server waits for.
const RUDE_SERVER: &str = "trap '' TERM HUP INT
sleep 3600 &
setsid sleep 3600 &
(setsid sleep 3600 &)
echo ready
while :; do sleep 3600; done";
const RUDE_PROCESSES: usize = 5;

/// A client that starts a server and waits for it.
const CLIENT: &str = "\"$@\"; exit $?";
/// Variable that marks the processes of a scene.
const MARK: &str = "OSTLER_DEMO";
/// Short, because the server only ends by SIGKILL.
const GRACE: &str = "300ms";
/// Bound on each wait; processes that remain then count as left.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    InputClosed,
    ClientKilled,
    WrapperAsked,
    WrapperKilled,
    GuardianKilled,
}

impl Way {
    pub(super) const ALL: [Self; 5] = [
        Self::InputClosed,
        Self::ClientKilled,
        Self::WrapperAsked,
        Self::WrapperKilled,
        Self::GuardianKilled,
    ];
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::InputClosed => "the client closes the server's input",
            Self::ClientKilled => "the client is killed (SIGKILL)",
            Self::WrapperAsked => "ostler run gets SIGTERM",
            Self::WrapperKilled => "ostler run is killed (SIGKILL)",
            Self::GuardianKilled => "its guardian is killed (SIGKILL)",
        })
    }
}

/// Number of processes below the client, before and after.
pub(super) struct Count {
    pub(super) running: usize,
    pub(super) left: usize,
}

/// A client with a rude server. Drop kills what is left.
pub(super) struct Scene {
    mark: String,
    client: Child,
    input: Option<ChildStdin>,
    /// Processes below the client when all of them ran.
    running: Vec<Process>,
}

impl Scene {
    pub(super) fn without_ostler() -> io::Result<Self> {
        Self::start(&[])
    }

    pub(super) fn with_ostler() -> io::Result<Self> {
        let ostler = std::env::current_exe()?.into_os_string();
        let options = ["run", "--grace", GRACE, "--"].map(OsString::from);
        Self::start(&[&[ostler], options.as_slice()].concat())
    }

    fn start(prefix: &[OsString]) -> io::Result<Self> {
        let mark = InstanceId::random()?.to_string();
        let mut client = Command::new("sh")
            .args(["-c", CLIENT, "client"])
            .args(prefix)
            .args(["sh", "-c", RUDE_SERVER])
            .env(MARK, &mark)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let input = client.stdin.take();
        let mut scene = Self { mark, client, input, running: Vec::new() };
        scene.await_readiness()?;
        Ok(scene)
    }

    fn await_readiness(&mut self) -> io::Result<()> {
        let output = self.client.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        BufReader::new(output).read_line(&mut String::new())?;
        let complete = wait_until(|| {
            self.running = self.present();
            self.rude_processes() == RUDE_PROCESSES
        });
        complete.then_some(()).ok_or_else(|| io::Error::other("the rude server did not start"))
    }

    /// All processes of the scene except the client: marked ones, and the guardian, which has no environment.
    fn present(&self) -> Vec<Process> {
        let client = self.client.id().cast_signed();
        let marked = Process::carrying(MARK).into_iter().filter(|(_, mark)| *mark == self.mark);
        let mut all: Vec<Process> = marked.map(|(process, _)| process).collect();
        all.extend(Process::descendants_of(client));
        all.extend(self.running.iter().filter(|process| process.is_still_there()).cloned());
        all.sort();
        all.dedup_by_key(|process| process.pid);
        all.retain(|process| process.pid != client);
        all
    }

    fn rude_processes(&self) -> usize {
        self.running.iter().filter(|process| !process.name.starts_with("ostler")).count()
    }

    pub(super) fn end(mut self, way: Way) -> io::Result<Count> {
        match way {
            Way::InputClosed => self.input = None,
            Way::ClientKilled => self.client.kill()?,
            Way::WrapperAsked => self.signal("ostler", Signal::TERM)?,
            Way::WrapperKilled => self.signal("ostler", Signal::KILL)?,
            Way::GuardianKilled => self.signal("ostler-guardian", Signal::KILL)?,
        }
        self.client.wait()?;
        // Without ostler nothing ends the rest, so waiting is pointless.
        let nobody_ends_them = self.rude_processes() == self.running.len();
        wait_until(|| nobody_ends_them || self.present().is_empty());
        Ok(Count { running: self.rude_processes(), left: self.present().len() })
    }

    fn signal(&self, name: &str, signal: Signal) -> io::Result<()> {
        let target = self.running.iter().find(|process| process.name == name);
        let target = target.and_then(|process| Pid::from_raw(process.pid));
        Ok(kill_process(target.ok_or(io::ErrorKind::NotFound)?, signal)?)
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = self.client.kill();
        let _ = self.client.wait();
        wait_until(|| {
            let left = self.present();
            for process in &left {
                // A process that is already gone is no failure.
                let _ = process.kill();
            }
            left.is_empty()
        });
    }
}

pub(super) fn wait_until(mut condition: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        if Instant::now() > deadline {
            return false;
        }
        thread::sleep(LOOK_EVERY);
    }
    true
}
