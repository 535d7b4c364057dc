//! Ten agents share one gateway; half of them and then the gateway are killed.

use std::fmt;
use std::io::{self, BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use ostler::{InstanceId, Places, Process};

use super::scene::wait_until;

const AGENTS: usize = 10;
const CALLS: usize = 10;

/// Handshake of a client.
const HELLO: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"demo","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
"#;

/// A gateway with its agents. Drop kills what is left.
pub(super) struct Sharing {
    gateway: Child,
    socket: PathBuf,
    agents: Vec<Agent>,
    /// Every process seen below the gateway.
    seen: Vec<Process>,
}

/// A client over `ostler connect`.
struct Agent {
    client: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

/// Counts at one moment.
pub(super) struct Count {
    pub(super) moment: &'static str,
    pub(super) agents: usize,
    pub(super) servers: usize,
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "  {:<48}  {:>7}  {:>7}", self.moment, self.agents, self.servers)
    }
}

impl Sharing {
    /// Starts a gateway with a socket of its own, so that no other gateway is touched.
    pub(super) fn start() -> io::Result<Self> {
        let places = Places::of_session();
        let socket =
            places.private()?.join(format!("demo-{:.8}.sock", InstanceId::random()?.to_string()));
        let gateway = ostler()?
            .args(["serve", "--no-config", "--socket"])
            .arg(&socket)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let sharing = Self { gateway, socket, agents: Vec::new(), seen: Vec::new() };
        let is_there = wait_until(|| sharing.socket.exists());
        is_there.then_some(sharing).ok_or_else(|| io::Error::other("the gateway did not start"))
    }

    /// Plays all moments. Returns the number of processes that are left.
    pub(super) fn play(
        mut self,
        tell: &mut dyn FnMut(&Count) -> io::Result<()>,
    ) -> io::Result<usize> {
        for number in 0..AGENTS {
            self.agents.push(Agent::connect(&self.socket, number)?);
        }
        tell(&self.count("ten agents connected"))?;
        for agent in &mut self.agents {
            (0..CALLS).try_for_each(|_| agent.call())?;
        }
        tell(&self.count("each has called a tool ten times"))?;
        for agent in self.agents.iter_mut().take(AGENTS / 2) {
            agent.client.kill()?;
            agent.client.wait()?;
        }
        self.agents.drain(..AGENTS / 2);
        self.agents.iter_mut().try_for_each(Agent::call)?;
        tell(&self.count("five killed (SIGKILL), five continue"))?;
        self.gateway.kill()?;
        self.gateway.wait()?;
        for agent in &mut self.agents {
            agent.client.wait()?;
        }
        wait_until(|| self.left() == 0);
        let end = Count { moment: "the gateway killed (SIGKILL)", agents: 0, servers: self.left() };
        tell(&end)?;
        Ok(end.servers)
    }

    fn count(&mut self, moment: &'static str) -> Count {
        for process in Process::descendants_of(self.gateway.id().cast_signed()) {
            if !self.seen.iter().any(|seen| seen.identity() == process.identity()) {
                self.seen.push(process);
            }
        }
        let is_guardian = |process: &&Process| process.name.starts_with("ostler-guardian");
        let there = self.seen.iter().filter(|process| process.is_still_there());
        Count {
            moment,
            agents: self.agents.len(),
            servers: there.filter(|one| !is_guardian(one)).count(),
        }
    }

    /// Includes guardians, which end last.
    fn left(&self) -> usize {
        self.seen.iter().filter(|process| process.is_still_there()).count()
    }
}

impl Drop for Sharing {
    fn drop(&mut self) {
        for process in
            [&mut self.gateway].into_iter().chain(self.agents.iter_mut().map(|a| &mut a.client))
        {
            let _ = process.kill();
            let _ = process.wait();
        }
        // The killed gateway could not remove its files.
        for end in ["sock", "lock"] {
            let _ = std::fs::remove_file(self.socket.with_extension(end));
        }
    }
}

impl Agent {
    fn connect(socket: &PathBuf, number: usize) -> io::Result<Self> {
        let mut client = ostler()?
            .args(["connect", "example", "--agent", &format!("demo {number}"), "--socket"])
            .arg(socket)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let (input, output) =
            client.stdin.take().zip(client.stdout.take()).ok_or(io::ErrorKind::BrokenPipe)?;
        let mut agent = Self { client, input, output: BufReader::new(output) };
        agent.input.write_all(HELLO.as_bytes())?;
        agent.hear()?;
        Ok(agent)
    }

    fn call(&mut self) -> io::Result<()> {
        let call = br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","arguments":{"a":1,"b":2}}}"#;
        self.input.write_all(call)?;
        self.input.write_all(b"\n")?;
        self.hear()
    }

    fn hear(&mut self) -> io::Result<()> {
        let read = self.output.read_line(&mut String::new())?;
        if read == 0 { Err(io::Error::other("the gateway does not answer")) } else { Ok(()) }
    }
}

fn ostler() -> io::Result<Command> {
    Ok(Command::new(std::env::current_exe()?))
}
