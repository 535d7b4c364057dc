//! Transcripts of commands, compared with tests/adopt/snapshots/*.txt.
//!
//! `OSTLER_WRITE_SNAPSHOTS=1` writes the files instead. Read the diff before you commit it.

use std::path::PathBuf;
use std::{env, fs};

use crate::home::Home;

fn compare(name: &str, home: &Home, commands: &[&[&str]]) {
    let text: String = commands.iter().map(|words| home.transcript(words)).collect();
    assert!(!text.contains("s3cret"), "a secret is printed:\n{text}");
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/adopt/snapshots"));
    let path = path.join(name).with_extension("txt");
    if env::var_os("OSTLER_WRITE_SNAPSHOTS").is_some() {
        fs::write(path, text).unwrap();
    } else {
        assert_eq!(fs::read_to_string(path).unwrap_or_default(), text, "{name}.txt");
    }
}

#[test]
fn clients_are_listed_with_what_they_use() {
    let home = Home::new();
    compare("clients_none", &home, &[&["clients"], &["clients", "--json"]]);
    let home = Home::with_clients();
    home.write(".codex/config.toml", "[mcp_servers\n");
    home.write(
        "project/.mcp.json",
        r#"{"mcpServers": {"a": {"command": "ostler", "args": ["run", "--", "x"]}}}"#,
    );
    home.ostler(&["link", "cursor", "--yes"]);
    compare("clients", &home, &[&["clients"]]);
    let shown: serde_json::Value =
        serde_json::from_slice(&home.ostler(&["clients", "--json"]).stdout).unwrap();
    let states = shown
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["client"].as_str().unwrap(), one["state"].as_str().unwrap()));
    let expected = [
        ("claude-code", "wrapped"),
        ("cursor", "linked"),
        ("vscode", "neither"),
        ("codex", "unknown"),
    ];
    assert_eq!(states.collect::<Vec<_>>(), expected);
}

#[test]
fn servers_are_imported_once() {
    let home = Home::with_clients();
    compare(
        "import",
        &home,
        &[&["import", "--dry-run"], &["import"], &["import"], &["import", "vscode", "--json"]],
    );
}

#[test]
fn imports_that_fail_say_why() {
    let home = Home::new();
    home.write("bad.json", "{\"mcpServers\": {\"a\": \"s3cret\" \"b\"");
    home.write("list.txt", "");
    home.write(".config/ostler/ostler.json", "{\"mcpServers\": {\"a\": {\"comand\": \"s3cret\"}}}");
    home.write("one.json", r#"{"mcpServers": {"b": {"command": "x"}}}"#);
    compare(
        "import_errors",
        &home,
        &[
            &["import"],
            &["import", "nothing"],
            &["import", "docker"],
            &["import", "../bad.json"],
            &["import", "../list.txt"],
            &["import", "../one.json"],
            &["import", "../one.json", "--config", "new/ostler.json"],
        ],
    );
}

#[test]
fn a_link_is_shown_first_and_undone_exactly() {
    let home = Home::with_clients();
    compare(
        "link",
        &home,
        &[
            &["link", "cursor"],
            &["link", "cursor", "--json"],
            &["link", "cursor", "--yes"],
            &["link", "cursor", "--yes"],
            &["unlink", "cursor"],
            &["unlink", "cursor", "--yes"],
            &["unlink", "cursor", "--yes"],
        ],
    );
}

#[test]
fn one_entry_and_wrapped_entries_are_shown() {
    let home = Home::with_clients();
    compare(
        "link_one",
        &home,
        &[&["link", "vscode", "--one", "--yes"], &["unlink", "vscode", "--yes", "--json"]],
    );
    compare(
        "link_wrap",
        &home,
        &[&["link", "vscode", "--wrap", "--yes"], &["link", "vscode", "--wrap", "--yes", "--json"]],
    );
}

#[test]
fn links_that_fail_say_why() {
    let home = Home::new();
    home.write(".cursor/mcp.json", "{\"mcpServers\": {\"a\": {\"command\": 1");
    home.write(
        ".config/goose/config.yaml",
        "extensions: &all\n  a: {cmd: x, type: stdio}\nmore: *all\n",
    );
    compare(
        "link_errors",
        &home,
        &[
            &["link"],
            &["link", "nothing"],
            &["link", "zed", "--yes"],
            &["link", "cursor", "--yes"],
            &["link", "goose", "--yes"],
            &["link", "zed", "--one", "--wrap"],
            &["unlink", "zed"],
        ],
    );
}

#[test]
fn servers_are_added_and_removed() {
    let home = Home::new();
    compare(
        "add",
        &home,
        &[
            &["add", "files", "--", "npx", "-y", "@upstash/context7-mcp"],
            &["add", "files", "--", "other"],
            &["add", "db", "--env", "PASSWORD=value", "--json", "--", "uvx", "mcp-server-sqlite"],
            &["add", "search", "--url", "https://example.invalid/mcp", "--header", "X-Key: ${KEY}"],
            &["add", "bad", "--url", "nowhere"],
            &["add", "none"],
            &["add", "both", "--url", "https://example.invalid", "--", "x"],
            &["add", "env", "--env", "novalue", "--", "x"],
            &["remove", "files"],
            &["remove", "files"],
            &["remove", "db", "--json"],
        ],
    );
}
