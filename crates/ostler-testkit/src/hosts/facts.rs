//! Measurements of a host: the environment of its servers, its handshake, its timeouts.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::scene::{PATIENCE, Scene};
use super::{Host, Tuning, Way};
use crate::fake_model::Afterwards;
use crate::{is_alive, wait_until};

/// Longer than any host waits.
const LONGEST_LIMIT: Duration = Duration::from_mins(15);
/// Time for a host to react to `list_changed`, with the call that caused it still open.
const REACTION_MS: u64 = 3000;
/// Variables of which the page shows whether a host passes them on.
const WATCHED: [&str; 9] = [
    "XDG_CONFIG_HOME",
    "XDG_STATE_HOME",
    "XDG_RUNTIME_DIR",
    "TMPDIR",
    "LANG",
    "TERM",
    "SHELL",
    "USER",
    "OSTLER_TOKEN",
];
/// Set by shells and by the system's libraries, not by a host.
const NOT_ITS_OWN: [&str; 5] = ["PWD", "OLDPWD", "SHLVL", "_", "HOME"];

/// Measurements of a host.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Facts {
    /// The host.
    pub host: Host,
    /// Its version.
    pub version: String,
    /// The handshake.
    pub hello: Hello,
    /// Environment of its servers.
    pub environment: Environment,
    /// Whether it lists tools again on `list_changed`.
    pub heeds_list_changed: bool,
    /// Its limits for `initialize`, with its default configuration.
    pub handshake: Limits,
    /// Its limits for `tools/list`, with its default configuration.
    pub list: Limits,
    /// How often a server with `share: all` was started by two runs of the host one after the other.
    pub starts_of_two_runs: usize,
}

/// First messages of a host.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Hello {
    /// The method of its first message.
    pub first: String,
    /// `clientInfo.name`.
    pub name: String,
    /// `clientInfo.version`.
    pub version: String,
    /// `protocolVersion` of `initialize`.
    pub protocol: String,
    /// The names of its capabilities.
    pub capabilities: Vec<String>,
}

/// Environment of a host's servers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Environment {
    /// Those of the watched variables that do not reach the server.
    pub withheld: Vec<String>,
    /// Variables that the host sets itself.
    pub added: Vec<String>,
    /// Directories that the host has put in front of the `PATH`.
    pub in_front_of_path: Vec<String>,
    /// Whether the rest of the `PATH` is the host's own.
    pub is_path_kept: bool,
}

/// How long a host waits for an answer that never comes.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Limits {
    /// Until it begins its first turn without the server's tools.
    pub first_turn_ms: u64,
    /// Until it cancels the request or ends the server.
    pub gives_up_ms: u64,
}

/// Request of a host that never gets a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unanswered {
    /// `initialize`.
    Handshake,
    /// `tools/list`.
    List,
}

impl Facts {
    /// Takes all measurements. The duration depends on the timeouts of the host.
    pub fn measure(host: Host) -> Self {
        let (hello, environment, heeds_list_changed) = conversation(host);
        Self {
            host,
            version: host.installed().version,
            hello,
            environment,
            heeds_list_changed,
            handshake: limits(host, Unanswered::Handshake).1,
            list: limits(host, Unanswered::List).1,
            starts_of_two_runs: starts_of_two_runs(host),
        }
    }
}

/// Timeout of the host for a server that never answers, with its default configuration; and its `clientInfo.name`.
pub fn limits(host: Host, unanswered: Unanswered) -> (String, Limits) {
    let transcript = "transcript";
    let switches: &[&str] = match unanswered {
        Unanswered::Handshake => &["--answer", "never"],
        Unanswered::List => &["--never-list"],
    };
    let method = match unanswered {
        Unanswered::Handshake => "initialize",
        Unanswered::List => "tools/list",
    };
    let mut scene = Scene::new(host, switches, json!({}), Afterwards::Stay).tuned(Tuning::Default);
    scene.keep(transcript);
    scene.start(Way::Plain, false);
    let begin = wait_until("the host asks", PATIENCE, || {
        scene.is_in(transcript, method).then(Instant::now)
    });
    let has_given_up = || {
        let is_gone = !scene.stage.sandbox.pids().iter().any(|pid| is_alive(*pid));
        is_gone || scene.is_in(transcript, "notifications/cancelled")
    };
    wait_until("the host gives up", LONGEST_LIMIT, has_given_up);
    let gives_up_ms = millis(begin.elapsed());
    let turn = wait_until("the host's first turn", PATIENCE, || {
        scene.model.turns().first().map(|turn| turn.at)
    });
    let first_turn_ms = millis(turn.saturating_duration_since(begin));
    (Hello::from(&scene.heard(transcript)).name, Limits { first_turn_ms, gives_up_ms })
}

fn conversation(host: Host) -> (Hello, Environment, bool) {
    let wishes = json!({ "message": "x", "listChanged": true, "delayMs": REACTION_MS });
    let mut scene = Scene::new(host, &["--list-changed"], wishes, Afterwards::Finish);
    scene.keep("transcript");
    scene.dump("dump");
    scene.start(Way::Plain, false);
    assert!(scene.wait_for_call("listChanged"), "no call: {}", scene.said());
    scene.wait_exit();
    let heard: Vec<Value> = scene.heard("transcript");
    let dump = fs::read(scene.stage.sandbox.file("dump")).expect("a dump");
    let dump: Value = serde_json::from_slice(&dump).expect("JSON");
    let after_call = heard.iter().skip_while(|message| message["method"] != "tools/call");
    let heeds = after_call.into_iter().any(|message| message["method"] == "tools/list");
    (Hello::from(&heard), Environment::from(&scene, &dump["env"]), heeds)
}

fn starts_of_two_runs(host: Host) -> usize {
    let mut scene = Scene::new(host, &[], json!({ "message": "x" }), Afterwards::Finish)
        .served_with(json!({ "share": "all" }));
    for _ in 0..2 {
        scene.start(Way::Connect, false);
        scene.wait_exit();
    }
    scene.stage.sandbox.pids().len()
}

impl Hello {
    fn from(heard: &[Value]) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let initialize = heard.iter().find(|message| message["method"] == "initialize");
        let params = &initialize.expect("a handshake")["params"];
        let capabilities = params["capabilities"].as_object().cloned().unwrap_or_default();
        Self {
            first: text(&heard[0]["method"]),
            name: text(&params["clientInfo"]["name"]),
            version: text(&params["clientInfo"]["version"]),
            protocol: text(&params["protocolVersion"]),
            capabilities: capabilities.keys().cloned().collect(),
        }
    }
}

impl Environment {
    fn from(scene: &Scene, env: &Value) -> Self {
        let got: BTreeMap<String, String> =
            serde_json::from_value(env.clone()).expect("an environment");
        let given = scene.variables();
        let withheld = WATCHED.iter().filter(|name| !got.contains_key(**name));
        let is_added =
            |name: &&String| !given.contains_key(*name) && !NOT_ITS_OWN.contains(&name.as_str());
        let (path, old) = (&got["PATH"], &given["PATH"]);
        let before: Vec<&str> = path.split(':').filter(|part| !old.contains(part)).collect();
        Self {
            withheld: withheld.map(ToString::to_string).collect(),
            added: got.keys().filter(is_added).cloned().collect(),
            is_path_kept: path.ends_with(old.as_str()),
            in_front_of_path: before.into_iter().map(ToOwned::to_owned).collect(),
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
