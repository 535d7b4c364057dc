//! A sandbox with one host, its model, and the server that it is given.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::entry::TOKEN_VARIABLE;
use super::setup::Setup;
use super::{Entry, Host, Tuning, Way, install};
use crate::fake_model::{Afterwards, FakeModel};
use crate::terminal::Terminal;
use crate::web::address_in;
use crate::{Launched, Stage, binary, wait_until};

/// Bound on the work of a host before it ends. The slowest needs a minute on a busy machine.
pub(super) const PATIENCE: Duration = Duration::from_mins(5);
/// The server's name in the gateway's configuration.
const SERVER: &str = "stub";
/// `PATH` of a login shell, without a directory of the user.
const SYSTEM_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A host in a sandbox. The drop ends all of it.
#[derive(Debug)]
pub(super) struct Scene {
    // First, because they have to end before their sandbox does.
    running: Option<Running>,
    gateway: Option<Launched>,
    pub(super) model: FakeModel,
    pub(super) stage: Stage,
    host: Host,
    tuning: Tuning,
    /// The server's switches.
    switches: Vec<String>,
    /// Further keys of the server's entry in the gateway's configuration.
    more: Value,
}

#[derive(Debug)]
struct Running {
    child: Child,
    terminal: Option<Terminal>,
}

impl Scene {
    /// With a server that has these switches, and a model that calls its tool with these arguments.
    pub(super) fn new(host: Host, switches: &[&str], arguments: Value, after: Afterwards) -> Self {
        let stage = Stage::leaf();
        for directory in ["project", "tmp"] {
            fs::create_dir(stage.sandbox.file(directory)).expect("a directory");
        }
        Self {
            running: None,
            gateway: None,
            model: FakeModel::start(arguments, after),
            stage,
            host,
            tuning: Tuning::Recommended,
            switches: switches.iter().map(ToString::to_string).collect(),
            more: json!({}),
        }
    }

    /// With another configuration of the host.
    pub(super) fn tuned(mut self, tuning: Tuning) -> Self {
        self.tuning = tuning;
        self
    }

    /// With these keys in the server's entry of the gateway's configuration.
    pub(super) fn served_with(mut self, more: Value) -> Self {
        self.more = more;
        self
    }

    /// Starts the host, which reaches the server in this way.
    pub(super) fn start(&mut self, way: Way, has_terminal: bool) {
        let entry = self.entry(way);
        let setup = Setup::new(self.host, &entry, self.tuning, &self.model);
        for (path, text) in &setup.files {
            let path = self.stage.sandbox.home().join(path);
            fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
            fs::write(path, text).expect("a configuration file");
        }
        let mut words = self.host.installed().words;
        words.extend(setup.arguments);
        if has_terminal {
            words.splice(0..0, ["setsid", "--ctty"].map(ToOwned::to_owned));
        }
        let mut command = self.command(&words);
        command.envs(setup.variables);
        let terminal = has_terminal.then(|| Terminal::attach(&mut command));
        if terminal.is_none() {
            let output = File::create(self.output()).expect("a file");
            let copy = output.try_clone().expect("a descriptor");
            command.stdin(Stdio::null()).stdout(output).stderr(copy);
        }
        let child = command.spawn().expect("a host");
        self.running = Some(Running { child, terminal });
    }

    /// A command with the environment of a user who has just logged in.
    fn command(&self, words: &[String]) -> Command {
        let sandbox = &self.stage.sandbox;
        let mut command = self.stage.command(&words[0]);
        let node = install::node();
        let node = node.parent().expect("a directory").display();
        let (token, value) = sandbox.token().env();
        command.args(&words[1..]).current_dir(sandbox.file("project")).env_clear();
        command
            .env(token, value)
            .env("PATH", format!("{node}:{SYSTEM_PATH}"))
            .env("HOME", sandbox.home())
            .env("TMPDIR", sandbox.file("tmp"))
            .env("XDG_CONFIG_HOME", sandbox.home().join(".config"))
            .env("XDG_STATE_HOME", sandbox.state())
            .env("XDG_RUNTIME_DIR", sandbox.runtime())
            .env("OSTLER_RUNTIME_DIR", sandbox.runtime())
            .env("TERM", "xterm-256color")
            .env("LANG", "C.UTF-8")
            .env("USER", "root")
            .env("SHELL", "/bin/sh")
            .env(TOKEN_VARIABLE, sandbox.token().hex());
        command
    }

    fn entry(&mut self, way: Way) -> Entry {
        let words = match way {
            Way::Plain => self.server(),
            Way::Run => [self.ostler(&["run", "--"]), self.server()].concat(),
            Way::Connect => {
                self.configure();
                [self.ostler(&["connect"]), self.places()].concat()
            }
            Way::Http => return Entry::Url(format!("http://{}/mcp", self.serve())),
        };
        // Some hosts do not pass these on, and the test has to stay in its own directories.
        let mut variables = BTreeMap::new();
        if way != Way::Plain {
            let mut insert = |name: &str, path: PathBuf| {
                variables.insert(name.to_owned(), path.display().to_string());
            };
            insert("XDG_STATE_HOME", self.stage.sandbox.state());
            insert("OSTLER_RUNTIME_DIR", self.stage.sandbox.runtime());
        }
        Entry::Command { words, variables }
    }

    /// The server's command. Its pid file has a line for each start.
    fn server(&self) -> Vec<String> {
        let stub = self.stage.sandbox.reachable(&binary("ostler-stub")).display().to_string();
        let pids = self.stage.sandbox.file("pids").display().to_string();
        let own = [stub, "--pid-file".to_owned(), pids].into_iter();
        own.chain(self.switches.iter().cloned()).collect()
    }

    fn ostler(&self, words: &[&str]) -> Vec<String> {
        let program = self.stage.sandbox.reachable(&binary("ostler")).display().to_string();
        std::iter::once(program).chain(words.iter().map(ToString::to_string)).collect()
    }

    fn configure(&self) {
        let words = self.server();
        let mut entry = json!({ "command": words[0], "args": words[1..] });
        let more = self.more.as_object().expect("an object").clone();
        entry.as_object_mut().expect("an object").extend(more);
        let configuration = json!({ "mcpServers": { SERVER: entry } });
        fs::write(self.configuration(), configuration.to_string()).expect("a configuration");
    }

    fn configuration(&self) -> PathBuf {
        self.stage.sandbox.file("ostler.json")
    }

    /// The socket is named, because hosts do not pass on the variables that it is derived from.
    fn places(&self) -> Vec<String> {
        let socket = self.socket();
        let config = self.configuration().display().to_string();
        ["--config".to_owned(), config, "--socket".to_owned(), socket].to_vec()
    }

    fn socket(&self) -> String {
        self.stage.sandbox.runtime().join("gateway.sock").display().to_string()
    }

    /// A gateway that listens on HTTP, if there is none yet, and its address.
    fn serve(&mut self) -> SocketAddr {
        if self.gateway.is_none() {
            self.configure();
            let words = self.ostler(&["serve", "--listen", "127.0.0.1:0"]);
            let words = [words, self.places()].concat();
            self.gateway = Some(Launched::start(&mut self.command(&words)));
        }
        let gateway = self.gateway.as_ref().expect("a gateway");
        wait_until("the gateway listens", PATIENCE, || {
            let address = address_in(&gateway.stderr())?;
            TcpStream::connect(address).is_ok().then_some(address)
        })
    }

    /// Whether the host has ended, and how.
    pub(super) fn exit(&mut self) -> Option<ExitStatus> {
        let running = self.running.as_mut().expect("a host");
        if let Some(terminal) = &mut running.terminal {
            terminal.read();
        }
        running.child.try_wait().expect("wait")
    }

    /// Waits until the model has the tool's result or was offered no tool. Returns whether the result arrived.
    pub(super) fn wait_for_call(&mut self, marker: &str) -> bool {
        wait_until("the host has called the tool", PATIENCE, || {
            let turns = self.model.turns();
            let is_over = turns.iter().any(|turn| !turn.results.is_empty());
            is_over || turns.iter().any(|turn| !turn.is_tool_offered) || self.exit().is_some()
        });
        self.model.result().is_some_and(|text| text.contains(marker))
    }

    pub(super) fn wait_exit(&mut self) {
        wait_until("the host has ended", PATIENCE, || self.exit());
    }

    /// A signal to the host's own process.
    pub(super) fn signal(&mut self, signal: Signal) {
        let launched = self.running.as_ref().expect("a host").child.id();
        // OpenClaw starts itself once more.
        let again = self.stage.named("openclaw-agent").first().copied();
        self.stage.signal_if_there(again.unwrap_or(launched), signal);
    }

    /// Closes the host's terminal.
    pub(super) fn hang_up(&mut self) {
        self.running.as_mut().expect("a host").terminal = None;
    }

    fn output(&self) -> PathBuf {
        self.stage.sandbox.file("output")
    }

    /// Output of the host.
    pub(super) fn said(&self) -> String {
        let terminal = self.running.as_ref().and_then(|running| running.terminal.as_ref());
        match terminal {
            Some(terminal) => terminal.text(),
            None => fs::read_to_string(self.output()).unwrap_or_default(),
        }
    }

    /// Instances of the gateway according to `ostler ps`; empty without a gateway.
    pub(super) fn instances(&self) -> Vec<Value> {
        let mut command = self.command(&self.ostler(&["ps", "--json", "--socket", &self.socket()]));
        let output = command.output().expect("ostler ps");
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    }

    /// The variables that the host is started with.
    pub(super) fn variables(&self) -> BTreeMap<String, String> {
        let setup = Setup::new(self.host, &Entry::command(&["true"]), self.tuning, &self.model);
        let mut command = self.command(&["true".to_owned()]);
        command.envs(setup.variables);
        let text = |value: &OsStr| value.to_string_lossy().into_owned();
        let set = command.get_envs().filter_map(|(name, value)| Some((text(name), text(value?))));
        set.collect()
    }

    /// Makes the server record its input.
    pub(super) fn keep(&mut self, transcript: &str) {
        self.switch("--transcript", transcript);
    }

    /// Makes the server record its environment.
    pub(super) fn dump(&mut self, file: &str) {
        self.switch("--dump", file);
    }

    fn switch(&mut self, switch: &str, file: &str) {
        let file = self.stage.sandbox.file(file).display().to_string();
        self.switches.extend([switch.to_owned(), file]);
    }

    /// The messages of a transcript.
    pub(super) fn heard(&self, transcript: &str) -> Vec<Value> {
        let text = fs::read_to_string(self.stage.sandbox.file(transcript)).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Whether a transcript has a message with this method.
    pub(super) fn is_in(&self, transcript: &str, method: &str) -> bool {
        self.heard(transcript).iter().any(|message| message["method"] == method)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
