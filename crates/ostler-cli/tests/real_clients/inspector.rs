//! The command line of the Inspector, which makes one connection for each thing that it does.

use std::process::Command;

use ostler_testkit::Launched;
use serde_json::{Map, Value, json};

use crate::{PLAY, Reach, Seen, Transport, Way, node, sees_the_same, tools};

/// One run: its label, the method, and further arguments, the last of which is a name of the server.
type Step = (&'static str, &'static str, &'static [&'static str]);

const EVERYTHING: [Step; 6] = [
    ("tools", "tools/list", &[]),
    ("prompts", "prompts/list", &[]),
    ("resources", "resources/list", &[]),
    ("read", "resources/read", &["--uri", "demo://resource/dynamic/text/1"]),
    ("prompt", "prompts/get", &["--prompt-args", "city=Ulm", "--prompt-name", "args-prompt"]),
    ("call", "tools/call", &["--tool-arg", "message=x", "--tool-name", "echo"]),
];

const TIME: [Step; 2] = [
    ("tools", "tools/list", &[]),
    (
        "call",
        "tools/call",
        &[
            "--tool-args-json",
            r#"{"source_timezone":"UTC","time":"12:00","target_timezone":"Asia/Tokyo"}"#,
            "--tool-name",
            "convert_time",
        ],
    ),
];

#[test]
fn the_command_line_of_the_inspector() {
    sees_the_same(Transport::Stdio, play);
}

#[test]
fn the_command_line_of_the_inspector_on_http() {
    sees_the_same(Transport::StreamableHttp, play);
}

fn play(way: &Way<'_>) -> Seen {
    let steps: &[Step] = if way.server.name == "everything" { &EVERYTHING } else { &TIME };
    let mut seen = Seen::new();
    // It never shows `serverInfo`.
    seen.insert("server".into(), Value::Null);
    for (what, method, words) in steps {
        let mut result = step(way, method, words)["result"].take();
        // Through the gateway `_meta` names missing servers.
        result.as_object_mut().unwrap().remove("_meta");
        for list in ["tools", "prompts"] {
            strip(result.get_mut(list), &way.prefix);
        }
        seen.insert((*what).into(), result);
    }
    seen
}

fn step(way: &Way<'_>, method: &str, words: &[&str]) -> Value {
    let mut command = way.command(node());
    command.arg(tools().join("node/node_modules/.bin/mcp-inspector")).arg("--cli");
    target(way, &mut command);
    command.args(["--format", "json", "-q", "--method", method]);
    match words {
        [rest @ .., switch, name] if switch.ends_with("-name") => {
            command.args(rest).arg(switch).arg(format!("{}{name}", way.prefix));
        }
        words => {
            command.args(words);
        }
    }
    let mut client = Launched::start(&mut command);
    let Ok(Some(line)) = client.line(PLAY) else {
        panic!("{method} of {:?} got no further: {}", way.reach, client.stderr());
    };
    // It waits for processes that a wrapper leaves behind.
    if !matches!(way.reach, Reach::Itself(_)) {
        let status = client.wait_exit(PLAY);
        assert!(status.success(), "{method} of {:?}: {status}: {}", way.reach, client.stderr());
    }
    serde_json::from_slice(&line).unwrap()
}

/// Adds the address of the server.
fn target(way: &Way<'_>, command: &mut Command) {
    match &way.reach {
        Reach::Itself(words) | Reach::Connect(words) => {
            let config = way.stage.sandbox.file("inspector.json");
            let server = json!({ "command": words[0], "args": words[1..], "env": variables(way) });
            std::fs::write(&config, json!({ "mcpServers": { "s": server } }).to_string()).unwrap();
            command.arg("--config").arg(config).args(["--server", "s"]);
        }
        Reach::Http { url, token } => {
            command.args(["--server-url", url, "--transport", "http", "--header"]);
            command.arg(format!("Authorization: Bearer {token}"));
            // It asks for the newest version of the protocol first.
            command.args(["--protocol-era", "auto"]);
        }
    }
}

/// It passes only the variables of its configuration to the server.
fn variables(way: &Way<'_>) -> Map<String, Value> {
    let command = way.command("none");
    let text = |value: &std::ffi::OsStr| value.to_str().unwrap().to_owned();
    let set = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
    set.map(|(name, value)| (text(name), Value::from(text(value)))).collect()
}

fn strip(list: Option<&mut Value>, prefix: &str) {
    let Some(items) = list.and_then(Value::as_array_mut) else { return };
    items.retain_mut(|item| {
        let own = item["name"].as_str().unwrap().strip_prefix(prefix).map(Value::from);
        own.map(|own| item["name"] = own).is_some()
    });
}
