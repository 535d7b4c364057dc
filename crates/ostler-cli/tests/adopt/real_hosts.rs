//! Real clients read the files that ostler edited, and start ostler.

use std::path::Path;
use std::process::Output;
use std::time::Duration;

use ostler_testkit::hosts::Host;
use serde_json::Value;

use crate::home::Home;

/// Runs a command of a host in the home.
fn host(home: &Home, host: Host, words: &[&str]) -> Output {
    let program = host.words();
    let mut command = home.command(Path::new(&program[0]));
    command.args(&program[1..]).args(words);
    // Nothing leaves this machine.
    command.env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1").env("DISABLE_TELEMETRY", "1");
    command.output().unwrap()
}

fn stub(home: &Home) -> String {
    home.sandbox.reachable(&ostler_testkit::binary("ostler-stub")).display().to_string()
}

#[test]
fn codex_reads_its_linked_file() {
    let home = Home::new();
    let text = format!(
        "model = \"none\" # mine\n\n[mcp_servers.stub]\ncommand = \"{}\"\nenv = {{ A = \"1\" }}\n",
        stub(&home)
    );
    home.write(".codex/config.toml", &text);
    let listed = |home: &Home| -> Vec<(String, String)> {
        let output = host(home, Host::Codex, &["mcp", "list", "--json"]);
        let listed: Value = serde_json::from_slice(&output.stdout).unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let one = |it: &Value| (text(&it["name"]), text(&it["transport"]["command"]));
        listed.as_array().unwrap().iter().map(one).collect()
    };
    assert_eq!(listed(&home), [("stub".to_owned(), stub(&home))]);
    assert!(home.ostler(&["link", "codex", "--yes"]).status.success());
    let linked = listed(&home);
    assert!(
        linked.len() == 1 && linked[0].0 == "stub" && linked[0].1.ends_with("/ostler"),
        "{linked:?}"
    );
    assert!(home.ostler(&["unlink", "codex", "--yes"]).status.success());
    assert_eq!(home.read(".codex/config.toml"), text);
}

#[test]
fn claude_code_reaches_its_server_through_the_linked_entry() {
    let home = Home::new();
    let text = serde_json::json!({ "mcpServers": { "stub": { "type": "stdio", "command": stub(&home), "args": [] } } });
    home.write(".claude.json", &text.to_string());
    let connected = |home: &Home| {
        let output = host(home, Host::ClaudeCode, &["mcp", "list"]);
        let said = String::from_utf8(output.stdout).unwrap();
        let line = said
            .lines()
            .find(|line| line.starts_with("stub: "))
            .unwrap_or_else(|| panic!("{said}"))
            .to_owned();
        assert!(line.ends_with("Connected"), "{line}");
        line
    };
    assert!(connected(&home).contains("ostler-stub"));
    assert!(home.ostler(&["link", "claude-code", "--yes"]).status.success());
    assert!(connected(&home).contains("ostler connect stub"));
    let running: Value = serde_json::from_slice(&home.ostler(&["ps", "--json"]).stdout).unwrap();
    assert_eq!(running[0]["name"], "stub", "{running}");
    assert!(home.ostler(&["unlink", "claude-code", "--yes"]).status.success());
    assert!(connected(&home).contains("ostler-stub"));
    assert!(home.ostler(&["down"]).status.success());
    home.sandbox.expect_no_process_left(Duration::from_secs(30));
}
