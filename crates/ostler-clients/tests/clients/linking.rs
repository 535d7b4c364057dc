//! What each client's file looks like afterwards.

use ostler_clients::{Action, Client, Format, Mode, Value};

use crate::fixtures::{self, FIXTURES};
use crate::home::{Home, PROGRAM, names};

/// An entry of the client's file.
fn entry(home: &Home, client: &str, keys: &[&str]) -> Value {
    let format = Client::named(client).unwrap().files[0].format;
    format.read(&home.read(client)).unwrap().at(keys).cloned().unwrap_or(Value::Null)
}

fn json(value: &str) -> Value {
    Format::Json.read(value).unwrap()
}

#[test]
fn each_entry_connects_under_its_own_key_and_keeps_what_concerns_the_client() {
    let cases: &[(&str, &[&str], &str)] = &[
        (
            "claude-desktop",
            &["mcpServers", "brave-search"],
            r#"{"command": "PROGRAM", "args": ["connect", "brave-search", "--config", "CONFIG"]}"#,
        ),
        (
            "claude-code",
            &["mcpServers", "github"],
            r#"{"type": "stdio", "command": "PROGRAM", "args": ["connect", "github", "--config", "CONFIG"], "env": {"GITHUB_TOKEN": "${GITHUB_TOKEN}"}}"#,
        ),
        (
            "claude-code",
            &["mcpServers", "search"],
            r#"{"type": "stdio", "env": {"SEARCH_TOKEN": "${SEARCH_TOKEN:-}"}, "command": "PROGRAM", "args": ["connect", "search", "--config", "CONFIG"]}"#,
        ),
        (
            "claude-code",
            &["mcpServers", "linear"],
            r#"{"type": "sse", "url": "https://mcp.example.invalid/sse"}"#,
        ),
        (
            "cursor",
            &["mcpServers", "notes"],
            r#"{"command": "PROGRAM", "args": ["connect", "notes", "--config", "CONFIG"], "env": {"NOTES_TOKEN": "${env:NOTES_TOKEN}"}, "disabled": true}"#,
        ),
        (
            "vscode",
            &["servers", "fetch"],
            r#"{"type": "stdio", "command": "PROGRAM", "args": ["connect", "fetch", "--config", "CONFIG"], "dev": {"watch": "src/**"}}"#,
        ),
        (
            "codex",
            &["mcp_servers", "github"],
            r#"{"command": "PROGRAM", "args": ["connect", "github", "--config", "CONFIG"], "env_vars": ["GITHUB_PERSONAL_ACCESS_TOKEN"], "enabled_tools": ["search_code"], "tools": {"search_code": {"approval_mode": "approve"}}}"#,
        ),
        (
            "codex",
            &["mcp_servers", "figma"],
            r#"{"command": "PROGRAM", "args": ["connect", "figma", "--config", "CONFIG"], "env_vars": ["FIGMA_TOKEN"]}"#,
        ),
        (
            "gemini",
            &["mcpServers", "web"],
            r#"{"command": "PROGRAM", "args": ["connect", "web", "--config", "CONFIG"], "env": {"WEB_TOKEN": "${WEB_TOKEN}"}}"#,
        ),
        (
            "zed",
            &["context_servers", "older"],
            r#"{"command": {"path": "PROGRAM", "args": ["connect", "older", "--config", "CONFIG"]}, "settings": {}}"#,
        ),
        (
            "openclaw",
            &["mcp", "servers", "api"],
            r#"{"command": "PROGRAM", "args": ["connect", "api", "--config", "CONFIG"], "env": {"API_TOKEN": "${API_TOKEN}"}, "toolFilter": {"include": ["search"]}}"#,
        ),
        (
            "opencode",
            &["mcp", "everything"],
            r#"{"type": "local", "command": ["PROGRAM", "connect", "everything", "--config", "CONFIG"], "environment": {"LOG_LEVEL": "{env:LOG_LEVEL}"}, "enabled": true, "timeout": 5000}"#,
        ),
        (
            "opencode",
            &["mcp", "sentry"],
            r#"{"type": "local", "command": ["PROGRAM", "connect", "sentry", "--config", "CONFIG"], "environment": {"SENTRY_TOKEN": "{env:SENTRY_TOKEN}"}, "oauth": false}"#,
        ),
        (
            "goose",
            &["extensions", "docs"],
            r#"{"enabled": true, "name": "docs", "type": "stdio", "cmd": "PROGRAM", "args": ["connect", "docs", "--config", "CONFIG"]}"#,
        ),
        (
            "cline",
            &["mcpServers", "linear"],
            r#"{"command": "PROGRAM", "args": ["connect", "linear", "--config", "CONFIG"], "disabled": false, "autoApprove": ["list_issues"]}"#,
        ),
        (
            "copilot",
            &["mcpServers", "context7"],
            r#"{"type": "local", "command": "PROGRAM", "args": ["connect", "context7", "--config", "CONFIG"], "env": {"CONTEXT7_API_KEY": "${CONTEXT7_API_KEY}"}, "tools": ["get-library-docs"]}"#,
        ),
    ];
    for (client, keys, expected) in cases {
        let home = Home::with(client, fixtures::of(client));
        home.link(client, Mode::Each);
        let config = home.machine.configuration().display().to_string();
        let expected = expected.replace("PROGRAM", PROGRAM).replace("CONFIG", &config);
        let found = entry(&home, client, keys);
        let sorted = |value: &Value| {
            let mut members = value.members().to_vec();
            members.sort_by(|one, two| one.0.cmp(&two.0));
            members
        };
        assert!(sorted(&found) == sorted(&json(&expected)), "{client}\n{}", home.read(client));
    }
}

#[test]
fn no_secret_stays_in_a_linked_file_and_ostlers_is_private() {
    use std::os::unix::fs::PermissionsExt as _;
    for (client, text) in FIXTURES {
        let home = Home::with(client, text);
        home.link(client, Mode::Each);
        // Zed's extension keeps its own settings.
        assert!(!home.read(client).contains("s3cret") || *client == "zed", "{}", home.read(client));
        let mode = home.machine.configuration().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

#[test]
fn a_second_link_changes_nothing() {
    for (client, text) in FIXTURES {
        for mode in [Mode::Each, Mode::One, Mode::Wrap] {
            let home = Home::with(client, text);
            home.link(client, mode);
            let mut configuration = home.configuration();
            let plan = home.plan(client, mode, &mut configuration);
            assert!(!plan.changes(), "{client}\n{}", plan.after);
            assert!(configuration.edited(&|_| Ok(())).unwrap().is_none(), "{client}");
        }
    }
}

#[test]
fn one_entry_takes_the_place_of_all() {
    for (client, text) in FIXTURES {
        let home = Home::with(client, text);
        let steps = home.link(client, Mode::One);
        assert_eq!(names(&steps, |action| *action == Action::Add), ["ostler"], "{client}");
        let folded = names(&steps, |action| matches!(action, Action::Fold(..)));
        let again = home.plan(client, Mode::One, &mut home.configuration()).steps;
        let left = names(&again, |_| true);
        assert!(folded.iter().all(|name| !left.contains(name)), "{client} {left:?}");
    }
}

#[test]
fn a_client_without_a_file_gets_one_with_one_entry() {
    for (client, _) in FIXTURES {
        let home = Home::empty();
        home.link(client, Mode::One);
        let format = Client::named(client).unwrap().files[0].format;
        let text = home.read(client);
        assert!(format.read(&text).is_ok() && text.contains(PROGRAM), "{client}\n{text}");
        home.unlink(client);
        assert!(!home.path(client).exists(), "{client}");
    }
}

#[test]
fn a_wrapped_entry_runs_its_own_command() {
    let home = Home::with("codex", fixtures::of("codex"));
    let steps = home.link("codex", Mode::Wrap);
    assert_eq!(names(&steps, |action| *action == Action::Wrap), ["context7", "github", "db"]);
    let found = entry(&home, "codex", &["mcp_servers", "db"]);
    let expected = r#"{"command": "PROGRAM", "args": ["run", "--", "uvx", "mcp-server-sqlite"], "env": {"DB_PASSWORD": "s3cret"}}"#;
    assert!(found == json(&expected.replace("PROGRAM", PROGRAM)), "{}", home.read("codex"));
    assert!(!home.machine.configuration().exists(), "wrapping needs no configuration");
}

#[test]
fn wrapped_entries_can_be_linked_and_come_back() {
    for (client, text) in FIXTURES {
        let home = Home::with(client, text);
        home.link(client, Mode::Wrap);
        let steps = home.link(client, Mode::Each);
        assert_eq!(names(&steps, |action| *action == Action::Already), [""; 0], "{client}");
        home.unlink(client);
        assert_eq!(home.read(client), *text, "{client}");
    }
}

#[test]
fn names_that_look_like_options_and_quotes_are_no_trouble() {
    let names = ["-x", "--config", "a b", "ü\"'\\", "a.b", "run"];
    let servers = names
        .map(|name| (name, Value::object([("command", Value::from(format!("server of {name}")))])));
    let text = Value::object([("mcpServers", Value::object(servers))]);
    let text = Format::Json.edit("", &[ostler_clients::Edit::Set(vec![], text)]).unwrap();
    let home = Home::with("cursor", &text);
    let steps = home.link("cursor", Mode::Each);
    assert_eq!(
        crate::home::names(&steps, |action| matches!(action, Action::Connect(..))).len(),
        names.len()
    );
    let again = home.plan("cursor", Mode::Each, &mut home.configuration());
    assert!(!again.changes());
    home.unlink("cursor");
    assert_eq!(home.read("cursor"), text);
}

#[test]
fn a_wrapped_entry_with_options_keeps_them() {
    let text = r#"{"mcpServers": {"a": {"command": "ostler", "args": ["run", "--memory", "1g", "--", "x"]}}}"#;
    let home = Home::with("cursor", text);
    for mode in [Mode::Each, Mode::Wrap] {
        home.link("cursor", mode);
        assert_eq!(home.read("cursor"), text);
    }
}
