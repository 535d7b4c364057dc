//! Broken servers, and what a caller, `ostler doctor SERVER` and `ostler logs SERVER` say about each, compared with `broken_servers/*.txt`.
//!
//! `OSTLER_WRITE_BROKEN=1` writes the files instead. Read the diff before you commit it.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use ostler::visible::Visible;
use ostler_testkit::{Certificate, FakeHttp, Heard, Launched, Part, Reply, Stage, standard};
use serde_json::{Value, json};

use crate::test_gateway::TestGateway;

/// A server, with the name of its file.
type Broken = (&'static str, Value);

/// Answers `initialize` with the JSON in `$1`, which follows the id of the request, and then runs `$2`.
const ANSWERING: &str = r#"read -r line
id=$(printf '%s' "$line" | sed 's/.*"id":\([^,}]*\).*/\1/')
printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$1"
eval "$2""#;

/// Answers every request with an error.
const REFUSING: &str = r#"while read -r line; do
  case "$line" in *'"id"'*)
    id=$(printf '%s' "$line" | sed 's/.*"id":\([^,}]*\).*/\1/')
    printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32001,"message":"the licence has expired"}}\n' "$id";;
  esac
done"#;

fn shell(script: &str) -> Value {
    json!({ "command": "sh", "args": ["-c", script] })
}

/// A server that prints these lines on stderr and exits.
fn exits(code: u8, lines: &[&str]) -> Value {
    let mut args =
        vec!["-c".to_owned(), format!(r#"printf '%s\n' "$@" >&2; exit {code}"#), "sh".into()];
    args.extend(lines.iter().map(ToString::to_string));
    json!({ "command": "sh", "args": args })
}

fn answers(member: &str, then: &str) -> Value {
    json!({ "command": "sh", "args": ["-c", ANSWERING, "sh", member, then], "grace": "300ms" })
}

/// An entry with a limited time to start.
fn briefly(mut entry: Value) -> Value {
    entry["startTimeout"] = json!("1500ms");
    entry["grace"] = json!("300ms");
    entry
}

/// Servers whose program never runs.
fn not_started(directory: &Path) -> Vec<Broken> {
    let file = |name: &str, text: &str, mode: u32| {
        let path = directory.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        json!({ "command": path })
    };
    let nowhere = |command: &str, args: &[&str]| json!({ "command": command, "args": args, "env": { "PATH": "/nowhere" } });
    vec![
        ("not_found", json!({ "command": "no-such-server", "args": ["--api-key", "s3cret"] })),
        ("not_found_npx", nowhere("npx", &["-y", "@modelcontextprotocol/server-everything"])),
        ("not_found_uvx", nowhere("uvx", &["mcp-server-time"])),
        ("not_found_docker", nowhere("docker", &["run", "-i", "--rm", "mcp/time"])),
        ("not_executable", file("not-executable", "#!/bin/sh\n", 0o644)),
        ("no_interpreter", file("no-interpreter", "#!/nowhere/node\n", 0o755)),
        ("no_directory", json!({ "command": "true", "cwd": "/nowhere/at/all" })),
        ("no_env_file", json!({ "command": "true", "envFile": "/nowhere/.env" })),
        ("unset_variable", json!({ "command": "true", "env": { "TOKEN": "${NOT_SET_ANYWHERE}" } })),
    ]
}

/// Servers that exit by themselves.
fn exiting() -> Vec<Broken> {
    let secret = r"printf 'cannot open \033[31mthe database\nusing password: s3cret\n' >&2; exit 1";
    let image = "docker: Error response from daemon: pull access denied for no/such-image, repository does not exist or may require 'docker login'";
    let engine = "docker: Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?";
    vec![
        ("exits_with_0", json!({ "command": "true" })),
        ("exits_with_1", shell(secret)),
        ("segmentation_fault", shell("kill -SEGV $$")),
        ("killed", shell("kill -KILL $$")),
        ("exit_127_of_a_shell", shell("npx-of-another-name -y x")),
        ("exit_126_of_a_shell", shell("exec /etc/group")),
        ("usage_on_stdout", shell("echo 'usage: server [--port PORT]'; exit 2")),
        (
            "wrong_node_version",
            exits(
                1,
                &["SyntaxError: Unexpected token '??='", "    at wrapSafe", "Node.js v14.21.3"],
            ),
        ),
        ("missing_variable", exits(1, &["Error: GITHUB_PERSONAL_ACCESS_TOKEN is not set"])),
        ("missing_python_variable", exits(1, &["KeyError: 'MY_API_KEY'"])),
        (
            "no_such_python_package",
            exits(
                1,
                &["error: No solution found", "  cause: x was not found in the package registry"],
            ),
        ),
        ("missing_python_module", exits(1, &["ModuleNotFoundError: No module named 'mcp'"])),
        ("no_such_package", exits(1, &["npm error code E404", "npm error 404 Not Found"])),
        (
            "no_such_image",
            exits(125, &["Unable to find image 'no/such-image:latest' locally", image]),
        ),
        ("engine_down", exits(125, &[engine])),
        ("port_in_use", exits(1, &["Error: listen EADDRINUSE: address already in use :::3000"])),
        ("certificate_in_the_server", exits(1, &["Error: unable to get local issuer certificate"])),
    ]
}

/// Servers that run, and do not speak MCP as they should.
fn confused(stub: &Value) -> Vec<Broken> {
    let result = r#""result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}"#;
    let stub = stub.as_str().unwrap();
    vec![
        (
            "garbage",
            briefly(shell("echo Server listening on port 3000; while read -r _; do :; done")),
        ),
        ("banner_before_json", shell(&format!("echo Welcome; exec {stub}"))),
        ("hangs", briefly(json!({ "command": "sleep", "args": ["1000"] }))),
        ("closes_stdout", briefly(shell("exec >&-; exec sleep 1000"))),
        ("long_line", shell("head -c 68000000 /dev/zero | tr '\\0' x; exec sleep 1000")),
        (
            "unknown_protocol",
            answers(
                r#""result":{"protocolVersion":"1999-12-31","capabilities":{}}"#,
                "exec sleep 1000",
            ),
        ),
        (
            "error_to_initialize",
            answers(
                r#""error":{"code":-32000,"message":"bad licence, token=s3cret"}"#,
                "exec sleep 1000",
            ),
        ),
        ("error_to_list", answers(result, REFUSING)),
        (
            "dies_after_the_handshake",
            answers(result, "read -r _; read -r _; echo 'no luck' >&2; exit 3"),
        ),
    ]
}

/// Remote servers, which `keep` keeps alive.
fn remote(keep: &mut Vec<FakeHttp>) -> Vec<Broken> {
    let mut far = |fake: FakeHttp| {
        let entry = json!({ "url": fake.url("/mcp?key=s3cret") });
        keep.push(fake);
        entry
    };
    let status = |status: u16| FakeHttp::new(move |_: &Heard| Reply::status(status));
    let page = |_: &Heard| {
        Reply::status(200).with("content-type", "text/html").and(Part::Text("<html>hi".into()))
    };
    let mut with_headers = far(status(401));
    with_headers["headers"] = json!({ "Authorization": "Bearer s3cret" });
    vec![
        ("remote_login", far(status(401))),
        ("remote_credentials", with_headers),
        ("remote_forbidden", far(status(403))),
        ("remote_not_found", far(status(404))),
        ("remote_unavailable", far(status(503))),
        ("remote_page", far(FakeHttp::new(page))),
        ("remote_certificate", far(FakeHttp::secured(&Certificate::new("localhost"), standard))),
        ("remote_refused", json!({ "url": "http://127.0.0.1:1/mcp" })),
    ]
}

fn directory() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/gateway/broken_servers"))
}

/// With a fixed `PATH`, which messages show.
fn plainly(command: &mut Command) -> &mut Command {
    command.env("PATH", "/usr/bin:/bin")
}

/// What a client is told: the first error, or that there is none.
fn caller(test_gateway: &TestGateway, server: &str) -> String {
    let mut client = Launched::start(plainly(&mut test_gateway.connect_command(&[server])));
    let mut answer = client.initialize();
    if answer["error"].is_null() {
        answer =
            client.call("tools/call", &json!({ "name": "echo", "arguments": { "message": "x" } }));
    }
    let error = &answer["error"];
    if error.is_null() {
        return "no error\n".into();
    }
    if error["data"].is_null() {
        return format!("{error}, which is the server's own\n");
    }
    let details = serde_json::to_string_pretty(&error["data"]["gateway"]).unwrap();
    format!("{}\n\n{details}\n", error["message"].as_str().unwrap())
}

fn doctor(test_gateway: &TestGateway, server: &str) -> String {
    let mut command = test_gateway.command(test_gateway.program());
    command.args(["doctor", server, "--config"]).arg(test_gateway.config());
    let output = plainly(&mut command).output().unwrap();
    let code = output.status.code().unwrap();
    format!("{}exit status {code}\n", String::from_utf8_lossy(&output.stdout))
}

/// The lines of its log, each once: the gateway may have started it more than once.
fn logs(test_gateway: &TestGateway, server: &str) -> String {
    let output = test_gateway.try_ostler(&["logs", server, "--json"]);
    let mut lines: Vec<String> = Vec::new();
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let entry: Value = serde_json::from_str(line).unwrap();
        let (source, text) = (entry["source"].as_str().unwrap(), entry["text"].as_str().unwrap());
        let line = format!("{source}: {}\n", Visible(text));
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines.concat() + &String::from_utf8(output.stderr).unwrap()
}

/// Replaces what differs from run to run: the test's directory, pids, times and ports.
fn settled(text: &str, test_gateway: &TestGateway) -> String {
    let text = text.replace(&test_gateway.sandbox.path().display().to_string(), "DIR");
    let mut settled = String::new();
    let mut rest = text.as_str();
    while let Some((at, before)) = ["pid ", "ready after ", "127.0.0.1:", "next try in "]
        .iter()
        .filter_map(|before| Some((rest.find(before)?, before)))
        .min()
    {
        let start = at + before.len();
        // The unit depends on the number.
        let is_time = before.starts_with("ready");
        let is_of_number = |c: char| c.is_ascii_digit() || c == '.' || (is_time && c != '\n');
        let number = rest[start..].find(|c: char| !is_of_number(c));
        let end = number.map_or(rest.len(), |length| start + length);
        let _ = write!(settled, "{}N", &rest[..start]);
        rest = &rest[end..];
    }
    settled + rest
}

fn compare(test_gateway: &TestGateway, servers: &[Broken]) {
    test_gateway.configure(servers);
    let mut differing = Vec::new();
    let said = |(name, entry): &Broken| {
        let (caller, doctor) = (caller(test_gateway, name), doctor(test_gateway, name));
        format!("{entry}\n\n== a caller\n{caller}\n== ostler doctor {name}\n{doctor}")
    };
    let said: Vec<String> = servers.iter().map(said).collect();
    // A gateway that has ended has written all of its logs.
    test_gateway.down();
    for ((name, _), said) in servers.iter().zip(said) {
        let text = format!("{said}\n== ostler logs {name}\n{}", logs(test_gateway, name));
        let text = settled(&text, test_gateway);
        let (_, said) = text.split_once("== a caller").unwrap();
        assert!(!said.contains("s3cret"), "{name} shows a secret: {said}");
        assert!(!said.contains(|c: char| c.is_control() && c != '\n'), "{name}: {said:?}");
        let path = directory().join(name).with_extension("txt");
        if env::var_os("OSTLER_WRITE_BROKEN").is_some() {
            fs::write(path, text).unwrap();
        } else if !fs::read_to_string(path).is_ok_and(|expected| expected == text) {
            differing.push(format!("---- {name}.txt should be:\n{text}"));
        }
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

/// All servers, for a stage.
fn all(test_gateway: &TestGateway, keep: &mut Vec<FakeHttp>) -> Vec<Broken> {
    let stub = &test_gateway.stub("any", &[], &json!({}))["command"];
    let directory = test_gateway.sandbox.path();
    [not_started(directory), exiting(), confused(stub), remote(keep)].concat()
}

fn compare_those(which: impl Fn(&TestGateway, &mut Vec<FakeHttp>) -> Vec<Broken>) {
    let (test_gateway, mut keep) = (TestGateway::new(Stage::leaf()), Vec::new());
    let servers = which(&test_gateway, &mut keep);
    compare(&test_gateway, &servers);
}

#[test]
fn a_server_that_cannot_be_started_is_explained() {
    compare_those(|test_gateway, _| not_started(test_gateway.sandbox.path()));
}

#[test]
fn a_server_that_exits_is_explained() {
    compare_those(|_, _| exiting());
}

#[test]
fn a_server_that_does_not_speak_mcp_is_explained() {
    compare_those(|test_gateway, _| {
        confused(&test_gateway.stub("any", &[], &json!({}))["command"])
    });
}

#[test]
fn a_remote_server_that_fails_is_explained() {
    compare_those(|_, keep| remote(keep));
}

#[test]
fn every_file_belongs_to_a_broken_server() {
    let (test_gateway, mut keep) = (TestGateway::new(Stage::leaf()), Vec::new());
    let names = all(&test_gateway, &mut keep).into_iter().map(|(name, _)| name.to_owned());
    let names: BTreeSet<String> = names.collect();
    assert!(names.len() >= 20);
    let files = fs::read_dir(directory()).unwrap().map(|entry| entry.unwrap().path());
    let files: BTreeSet<String> =
        files.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    assert_eq!(files, names);
}
