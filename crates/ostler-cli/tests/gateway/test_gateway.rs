//! Setting of a gateway test: a stage, a configuration, and clients.

use std::borrow::Borrow;
use std::fs;
use std::net::SocketAddr;
use std::ops::Deref;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use ostler_testkit::{Launched, Process, RUDE, Stage, binary, pids_in, wait_until, web};
use serde_json::{Value, json};

pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A stage with a configuration.
pub(crate) struct TestGateway<S = Stage>(S);

/// A client that is connected, after its handshake.
pub(crate) struct Client(pub(crate) Launched);

impl<S: Borrow<Stage>> Deref for TestGateway<S> {
    type Target = Stage;

    fn deref(&self) -> &Stage {
        self.0.borrow()
    }
}

impl<S: Borrow<Stage>> TestGateway<S> {
    pub(crate) fn new(stage: S) -> Self {
        Self(stage)
    }

    /// With these servers; `more` is added to each.
    pub(crate) fn with(stage: S, servers: &[&str], more: &Value) -> Self {
        let test_gateway = Self::new(stage);
        test_gateway.configure(
            &servers
                .iter()
                .map(|name| (*name, test_gateway.stub(name, &[], more)))
                .collect::<Vec<_>>(),
        );
        test_gateway
    }

    /// A gateway with one server of each rude kind, and their names.
    pub(crate) fn rude(stage: S) -> (Self, Vec<String>) {
        let test_gateway = Self::new(stage);
        let names: Vec<String> = (0..RUDE.len()).map(|number| format!("rude{number}")).collect();
        let entry = |(name, switches): (&String, &&str)| {
            test_gateway.stub(name, &switches.split_whitespace().collect::<Vec<_>>(), &json!({}))
        };
        let entries: Vec<Value> = names.iter().zip(&RUDE).map(entry).collect();
        let servers: Vec<(&str, Value)> = names.iter().map(String::as_str).zip(entries).collect();
        test_gateway.configure(&servers);
        (test_gateway, names)
    }

    /// Configuration entry of a stub that records each of its starts.
    pub(crate) fn stub(&self, name: &str, switches: &[&str], more: &Value) -> Value {
        let stub = self.sandbox.reachable(&binary("ostler-stub"));
        let mut args = vec!["--pid-file".to_owned(), self.pid_file(name).display().to_string()];
        args.extend(switches.iter().map(ToString::to_string));
        let mut entry = json!({ "command": stub, "args": args, "grace": "300ms" });
        entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        entry
    }

    /// Configuration entry of ostler's example server.
    pub(crate) fn example(&self, more: &Value) -> Value {
        let mut entry =
            json!({ "command": self.program(), "args": ["example-server"], "grace": "300ms" });
        entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        entry
    }

    pub(crate) fn configure(&self, servers: &[(&str, Value)]) {
        self.configure_with(servers, &json!({}));
    }

    /// The same with further keys, beside those of servers.
    pub(crate) fn configure_with(&self, servers: &[(&str, Value)], more: &Value) {
        let servers: serde_json::Map<String, Value> =
            servers.iter().map(|(name, entry)| ((*name).to_owned(), entry.clone())).collect();
        let mut configuration = json!({ "mcpServers": servers });
        configuration.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.write(&configuration.to_string());
    }

    /// Replaces the file by a rename, as editors do.
    pub(crate) fn write(&self, text: &str) {
        let draft = self.sandbox.file("draft");
        fs::write(&draft, text).unwrap();
        fs::rename(draft, self.config()).unwrap();
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.sandbox.file("ostler.json")
    }

    pub(crate) fn program(&self) -> String {
        self.run_words().remove(0)
    }

    fn pid_file(&self, name: &str) -> PathBuf {
        self.sandbox.file(&format!("pids-{name}"))
    }

    /// The pid of every stub of this server that was ever started.
    pub(crate) fn starts(&self, name: &str) -> Vec<u32> {
        pids_in(&self.pid_file(name))
    }

    /// `ostler connect`, with the configuration.
    pub(crate) fn connect_command(&self, words: &[&str]) -> Command {
        let mut command = self.command(self.program());
        command.arg("connect").args(words).arg("--config").arg(self.config());
        command
    }

    /// A client of one server, after its handshake.
    pub(crate) fn client(&self, words: &[&str]) -> Client {
        Client::start(&mut self.connect_command(words))
    }

    /// `ostler serve` in the foreground, ready.
    pub(crate) fn serve(&self, words: &[&str]) -> Launched {
        let mut command = self.command(self.program());
        command.arg("serve").args(words).arg("--config").arg(self.config());
        let gateway = Launched::start(&mut command);
        wait_until("the gateway serves", PATIENCE, || gateway.stderr().contains("serves"));
        gateway
    }

    /// The gateways that clients have started.
    pub(crate) fn gateways(&self) -> Vec<u32> {
        let pids = self.sandbox.cgroup().pids().into_iter();
        let is_gateway = |pid: &u32| {
            Process::read(*pid).is_some_and(|found| found.cmdline().contains("--detach=second"))
        };
        pids.filter(is_gateway).collect()
    }

    /// Waits until no server and no process of one is left; gateways and clients may run.
    pub(crate) fn expect_no_server(&self) {
        wait_until("no server is left", PATIENCE, || {
            self.guardians().is_empty() && self.named("ostler-stub").is_empty()
        });
    }

    /// Waits until the catalog has the tools of the server.
    pub(crate) fn expect_known_tools(&self) {
        let catalog = self.sandbox.state().join("ostler/catalog");
        let names_tools = |file: fs::DirEntry| {
            fs::read_to_string(file.path()).is_ok_and(|text| text.contains("tools/list"))
        };
        wait_until("its tools are known", PATIENCE, || {
            fs::read_dir(&catalog).is_ok_and(|files| files.flatten().any(names_tools))
        });
    }

    /// Waits until this many calls are in flight.
    pub(crate) fn expect_calls(&self, count: u64) {
        wait_until("calls are with their servers", PATIENCE, || self.calls() == count);
    }

    /// Number of calls in flight.
    pub(crate) fn calls(&self) -> u64 {
        let instances = self.instances();
        instances.iter().filter_map(|row| row["gateway"]["calls"].as_u64()).sum()
    }

    /// Asserts that no process is left and that bystanders are untouched.
    pub(crate) fn expect_no_process(&self) {
        self.sandbox.expect_no_process_left(PATIENCE);
        self.bystanders().assert_untouched();
    }

    /// Ends the gateway, with proof.
    pub(crate) fn down(&self) {
        self.ostler(&["down"]);
        self.expect_no_process();
    }

    /// Ends this gateway, with proof.
    pub(crate) fn down_with(&self, gateway: &mut Launched) {
        self.ostler(&["down"]);
        assert!(self.wait_exit(gateway).success(), "{}", gateway.stderr());
        self.expect_no_process();
    }

    /// Instances according to `ostler ps --json`.
    pub(crate) fn instances(&self) -> Vec<Value> {
        self.ostler_json(&["ps", "--json"]).as_array().unwrap().clone()
    }
}

impl Client {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut launched = Launched::start(command);
        let answer = launched.initialize();
        assert!(answer["result"]["protocolVersion"].is_string(), "{answer}");
        Self(launched)
    }

    /// A call of a tool; returns its result.
    pub(crate) fn tool(&mut self, name: &str, arguments: &Value) -> Value {
        let answer = self.0.call("tools/call", &json!({ "name": name, "arguments": arguments }));
        assert!(answer["result"].is_object(), "{answer}");
        answer["result"].clone()
    }

    /// Lists tools, prompts and resources, as clients do first.
    pub(crate) fn look(&mut self) {
        self.0.call("tools/list", &json!({}));
    }

    pub(crate) fn echo(&mut self) {
        self.tool("echo", &json!({ "message": "x" }));
    }

    /// Sends a tool call without waiting for the response.
    pub(crate) fn begin(&mut self, id: u64, name: &str, arguments: &Value) {
        let params = json!({ "name": name, "arguments": arguments });
        self.0
            .send(&json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }));
    }

    /// Closes its input, and waits for its end.
    pub(crate) fn end(mut self) {
        self.0.close_stdin();
        let status = self.0.wait_exit(PATIENCE);
        assert!(status.success(), "{status}: {}", self.0.stderr());
    }
}

/// A gateway that listens on HTTP, its address and its token.
pub(crate) fn serve(test_gateway: &TestGateway) -> (Launched, SocketAddr, String) {
    let gateway = test_gateway.serve(&["--listen", "127.0.0.1:0"]);
    let said = gateway.stderr();
    (gateway, address_in(&said), token_of(test_gateway))
}

/// The token that was made.
pub(crate) fn token_of(test_gateway: &TestGateway) -> String {
    let token = fs::read_to_string(test_gateway.sandbox.state().join("ostler/token")).unwrap();
    token.trim().to_owned()
}

/// Address in the output of a gateway that listens on HTTP.
pub(crate) fn address_in(said: &str) -> SocketAddr {
    web::address_in(said).unwrap_or_else(|| panic!("{said}"))
}
