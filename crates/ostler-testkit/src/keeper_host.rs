//! A host that embeds the keeper.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{Launched, Stage, binary, pids_in};

/// More than any command may take.
const PATIENCE: Duration = Duration::from_mins(1);

/// A running `ostler-keeper-host`.
#[derive(Debug)]
pub struct KeeperHost(pub Launched);

impl KeeperHost {
    /// Result of a command.
    pub fn try_ask(&mut self, order: &str) -> Result<Value, String> {
        self.order(order);
        let answer = self.0.message(PATIENCE);
        match answer.get("error") {
            Some(error) => Err(error.as_str().unwrap_or_default().to_owned()),
            None => Ok(answer["ok"].clone()),
        }
    }

    /// The same for a command that has to succeed.
    pub fn ask(&mut self, order: &str) -> Value {
        self.try_ask(order).unwrap_or_else(|error| panic!("{order}: {error}"))
    }

    /// Sends a command that has no response.
    pub fn order(&mut self, order: &str) {
        self.0.write(format!("{order}\n").as_bytes(), PATIENCE).expect("the host listens");
    }

    /// Executes a command in the background; see [`Self::result`].
    pub fn later(&mut self, tag: &str, order: &str) {
        self.ask(&format!("later {tag} {order}"));
    }

    /// Waits for a command of [`Self::later`].
    pub fn result(&mut self, tag: &str) -> Result<Value, String> {
        self.try_ask(&format!("result {tag}"))
    }

    /// Makes calls that all have to be answered, and returns their number.
    pub fn call(&mut self, words: &str) -> u64 {
        let tally = self.ask(&format!("call {words}"));
        answered(&tally)
    }

    /// The same for calls that were begun by [`Self::later`].
    pub fn answered(&mut self, tag: &str) -> u64 {
        let tally = self.ask(&format!("result {tag}"));
        answered(&tally)
    }

    /// The only error of calls that all have to fail.
    pub fn failing_call(&mut self, words: &str) -> String {
        let tally = self.ask(&format!("call {words}"));
        error_of(&tally)
    }

    /// The same for calls that were begun by [`Self::later`].
    pub fn failed(&mut self, tag: &str) -> String {
        let tally = self.ask(&format!("result {tag}"));
        error_of(&tally)
    }

    /// The books; panics unless they balance.
    pub fn books(&mut self) -> Value {
        let books = self.ask("books");
        assert_eq!(books["balance"], true, "{books}");
        books
    }

    /// Number of instances started so far.
    pub fn started(&mut self) -> u64 {
        self.books()["started"].as_u64().expect("a number")
    }

    /// The instances of a server that are not proven to be gone.
    pub fn instances(&mut self, server: &str) -> Vec<Value> {
        let snapshot = self.ask("snapshot");
        let all = snapshot["instances"].as_array().expect("a list");
        all.iter().filter(|view| view["server"] == server).cloned().collect()
    }

    /// The pids of a server's instances that can be used, in order.
    pub fn pids(&mut self, server: &str) -> Vec<u32> {
        let ready = self.instances(server).into_iter().filter(|view| view["state"] == "ready");
        let mut pids: Vec<u32> =
            ready.filter_map(|view| u32::try_from(view["pid"].as_u64()?).ok()).collect();
        pids.sort_unstable();
        pids
    }
}

fn answered(tally: &Value) -> u64 {
    assert_eq!(tally["failed"], json!({}));
    tally["answered"].as_u64().expect("a number")
}

fn error_of(tally: &Value) -> String {
    let errors: Vec<_> = tally["failed"].as_object().into_iter().flatten().collect();
    let [(error, _)] = errors[..] else { panic!("not one error: {tally}") };
    assert_eq!(tally["answered"], 0, "{tally}");
    error.clone()
}

impl Stage {
    /// A host that keeps these servers, and has started none.
    pub fn keeper_host(&self, config: &Value) -> KeeperHost {
        let mut command = self.command(self.sandbox.reachable(&binary("ostler-keeper-host")));
        command.arg("--program").arg(self.sandbox.reachable(&binary("ostler-stub")));
        command.args(["--containment", self.level(), "--config", &config.to_string()]);
        KeeperHost(Launched::start(&mut command))
    }

    /// Asserts that exactly this many servers run now, each with its guardian, and nothing else but the host.
    pub fn assert_servers(&self, host: &KeeperHost, servers: usize) {
        self.assert_servers_and_children(host, servers, 0);
    }

    /// Like above, for servers with this many descendants in all.
    pub fn assert_servers_and_children(&self, host: &KeeperHost, servers: usize, children: usize) {
        let there = self.sandbox.survivors();
        let named = |name: &str| {
            there.processes.iter().filter(|survivor| survivor.process.comm == name).count()
        };
        let counts = (named("ostler-stub"), named("ostler-guardian"), there.processes.len());
        let is_host_there = there.pids().contains(&host.0.pid());
        let stubs = servers + children;
        assert!(
            counts == (stubs, servers, stubs + servers + 1) && is_host_there,
            "not {servers} servers with their guardians, {children} children and the host:\n{there}"
        );
        assert!(there.zombies.is_empty(), "{there}");
    }

    /// The stub's switches for [`Self::inits`], [`Self::births`] and [`Self::most_alive`], and these.
    pub fn watched(&self, switches: &[&str]) -> Vec<String> {
        let path = |name: &str| self.sandbox.file(name).display().to_string();
        let own = ["--init-log".into(), path("inits"), "--census".into(), path("census")];
        own.into_iter().chain(switches.iter().map(ToString::to_string)).collect()
    }

    /// Number of handshakes with watched servers.
    pub fn inits(&self) -> usize {
        pids_in(&self.sandbox.file("inits")).len()
    }

    /// The pids of all watched servers, including dead ones, in the order of their starts.
    pub fn births(&self) -> Vec<u32> {
        pids_in(&self.sandbox.file("census"))
    }

    /// The highest number of watched servers alive at the same time.
    pub fn most_alive(&self) -> u32 {
        pids_in(&self.sandbox.file("census.alive")).into_iter().max().unwrap_or(0)
    }

    /// Shuts a host down, and asserts that nothing of it is left.
    pub fn shut_down(&self, mut host: KeeperHost) {
        let books = host.ask("shutdown");
        assert_eq!((&books["live"], &books["unverified"]), (&json!(0), &json!(0)), "{books}");
        self.assert_servers(&host, 0);
        host.order("exit");
        self.wait_exit(&mut host.0);
        self.assert_empty_now();
    }
}
