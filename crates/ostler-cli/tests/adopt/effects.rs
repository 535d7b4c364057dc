//! What the commands do beside what they print.

use std::fs;
use std::io::pipe;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use ostler_testkit::{LineClient, wait_until};
use serde_json::{Value, json};

use crate::home::{CURSOR, Home};

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

#[test]
fn without_agreement_nothing_is_written() {
    let home = Home::with_clients();
    assert_eq!(home.ostler(&["link", "cursor"]).status.code(), Some(2));
    assert_eq!(home.read(".cursor/mcp.json"), CURSOR);
    assert!(!home.path(".config/ostler").exists());
    assert_eq!(fs::read_dir(home.sandbox.state()).unwrap().count(), 0);
}

#[test]
fn secrets_move_to_private_files_and_a_link_keeps_mode_and_symlink() {
    let home = Home::with_clients();
    let file = home.path(".cursor/real.json");
    fs::rename(home.path(".cursor/mcp.json"), &file).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    symlink("real.json", home.path(".cursor/mcp.json")).unwrap();
    assert!(home.ostler(&["link", "cursor", "--yes"]).status.success());
    assert!(home.path(".cursor/mcp.json").symlink_metadata().unwrap().is_symlink());
    assert_eq!(mode(&file), 0o644);
    assert!(!home.read(".cursor/real.json").contains("s3cret"));
    assert!(home.read(".config/ostler/ostler.json").contains("s3cret-variable"));
    assert_eq!(mode(&home.path(".config/ostler/ostler.json")), 0o600);
    let backups: Vec<_> =
        fs::read_dir(home.sandbox.state().join("ostler/backups")).unwrap().collect();
    assert_eq!(backups.len(), 1);
    assert_eq!(mode(&backups[0].as_ref().unwrap().path()), 0o600);
    assert!(home.ostler(&["unlink", "cursor", "--yes"]).status.success());
    assert_eq!(home.read(".cursor/real.json"), CURSOR);
}

#[test]
fn files_of_a_project_are_edited_only_if_asked_for() {
    let home = Home::with_clients();
    let text = r#"{"mcpServers": {"here": {"command": "x"}}}"#;
    home.write("project/.cursor/mcp.json", text);
    home.ostler(&["link", "cursor", "--yes"]);
    assert_eq!(home.read("project/.cursor/mcp.json"), text);
    home.ostler(&["link", "cursor", "--yes", "--project"]);
    assert!(home.read("project/.cursor/mcp.json").contains("connect"));
    home.ostler(&["unlink", "cursor", "--yes", "--project"]);
    assert_eq!(home.read("project/.cursor/mcp.json"), text);
}

#[test]
fn what_is_imported_and_added_is_valid_and_keeps_variables() {
    let home = Home::with_clients();
    home.ostler(&["import"]);
    home.ostler(&["add", "more", "--env", "T=${T}", "--", "x", "y"]);
    let report: Value = serde_json::from_slice(&home.ostler(&["check", "--json"]).stdout).unwrap();
    assert_eq!(report["errors"], json!([]));
    let file: Value = serde_json::from_str(&home.read(".config/ostler/ostler.json")).unwrap();
    let servers = &file["mcpServers"];
    assert_eq!(servers["more"], json!({ "command": "x", "args": ["y"], "env": { "T": "${T}" } }));
    assert_eq!(
        servers["db"]["env"],
        json!({ "DB_PASSWORD": "s3cret-variable", "DB_USER": "${DB_USER}" })
    );
    home.ostler(&["remove", "more"]);
    assert!(!home.read(".config/ostler/ostler.json").contains("more"));
}

#[test]
fn a_running_client_is_named() {
    let home = Home::with_clients();
    let program = home.path("cursor");
    fs::copy("/bin/sleep", &program).unwrap();
    let mut client = home.command(&program).arg("600").spawn().unwrap();
    let comm = format!("/proc/{}/comm", client.id());
    let is_there = || fs::read_to_string(&comm).is_ok_and(|name| name == "cursor\n");
    wait_until("the client runs", Duration::from_secs(30), is_there);
    let output = home.ostler(&["link", "cursor", "--yes"]);
    client.kill().unwrap();
    client.wait().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("Cursor is running; restart it"), "{said}");
}

#[test]
fn a_program_in_a_cache_is_not_linked() {
    let home = Home::with_clients();
    let program = home.path(".npm/_npx/0123/node_modules/.bin/ostler");
    fs::create_dir_all(program.parent().unwrap()).unwrap();
    fs::copy(ostler_testkit::binary("ostler"), &program).unwrap();
    let output = home.command(&program).args(["link", "cursor", "--yes"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("npm install --global ostler-mcp"), "{said}");
    assert_eq!(home.read(".cursor/mcp.json"), CURSOR);
}

#[test]
fn a_linked_entry_offers_the_tools_of_its_server_under_their_own_names() {
    let home = Home::new();
    let stub = home.sandbox.reachable(&ostler_testkit::binary("ostler-stub"));
    let entry = json!({ "mcpServers": { "stub": { "command": stub, "args": [] } } });
    home.write(".cursor/mcp.json", &entry.to_string());
    let direct = tools(&home, &home.read(".cursor/mcp.json"));
    assert!(home.ostler(&["link", "cursor", "--yes"]).status.success());
    let linked = home.read(".cursor/mcp.json");
    assert!(linked.contains("connect") && !linked.contains("ostler-stub"), "{linked}");
    assert_eq!(tools(&home, &linked), direct);
    assert!(home.ostler(&["down"]).status.success());
    home.sandbox.expect_no_process_left(Duration::from_secs(30));
}

/// The names of the tools of the only server in a file of Cursor.
fn tools(home: &Home, text: &str) -> Vec<String> {
    let file: Value = serde_json::from_str(text).unwrap();
    let (_, entry) = file["mcpServers"].as_object().unwrap().iter().next().unwrap();
    let words = entry["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap());
    let mut command = home.command(Path::new(entry["command"].as_str().unwrap()));
    let ((stdin, input), (output, stdout)) = (pipe().unwrap(), pipe().unwrap());
    let mut server =
        command.args(words).stdin(stdin).stdout(stdout).stderr(Stdio::null()).spawn().unwrap();
    // The command holds the server's ends of the pipes.
    drop(command);
    let mut client = LineClient::new(input, output);
    client.enter();
    client.request(&json!(1), "tools/list", &json!({}));
    let listed = client.message();
    client.input = None;
    server.wait().unwrap();
    let tools = listed["result"]["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}
