//! Published servers with empty caches, behind a gateway with an empty catalog. They download and start
//! at the same time, which loads the whole machine.

use std::collections::BTreeSet;

use ostler_testkit::{Launched, Stage, wait_until};
use serde_json::{Map, Value, json};

use crate::scripts::{PYTHON_2, Script, TYPESCRIPT_1};
use crate::test_gateway::{PATIENCE, TestGateway};
use crate::{NPX, PLAY, Reach, Seen, Way};

const NODE: [(&str, &str); 6] = [
    ("everything", "@modelcontextprotocol/server-everything@2026.8.31"),
    ("files", "@modelcontextprotocol/server-filesystem@2026.8.31"),
    ("memory", "@modelcontextprotocol/server-memory@2026.8.31"),
    ("thinking", "@modelcontextprotocol/server-sequential-thinking@2026.8.31"),
    ("context7", "@upstash/context7-mcp@4.1.1"),
    ("browser", "@playwright/mcp@0.0.83"),
];
const PYTHON: [(&str, &str); 4] = [
    ("time", "mcp-server-time@2026.10.19"),
    ("fetch", "mcp-server-fetch@2026.10.24"),
    ("git", "mcp-server-git@2026.10.19"),
    ("sum", "mcp-server-calculator@0.2.1"),
];

/// A client that waits for its first list as long as the SDKs do. The speed of the registries is not measured.
const PATIENT: &str = "gemini-cli-mcp-client";

/// A gateway to all of them, with empty caches.
fn cold() -> TestGateway {
    let test_gateway = TestGateway::new(Stage::leaf());
    let caches = json!({
        "npm_config_cache": test_gateway.sandbox.file("npm"), "UV_CACHE_DIR": test_gateway.sandbox.file("uv"),
    });
    let node = NODE.map(|(name, package)| {
        let mut args = vec!["-y", package];
        // It serves a directory.
        args.extend((name == "files").then_some("/"));
        (name, json!({ "command": "npx", "args": args, "env": caches }))
    });
    let python = PYTHON.map(|(name, package)| {
        (name, json!({ "command": "uvx", "args": [package], "env": caches }))
    });
    test_gateway.configure(&node.into_iter().chain(python).collect::<Vec<_>>());
    test_gateway
}

/// The servers whose tools a client sees that lists once and leaves.
fn listed(script: Script, test_gateway: &TestGateway) -> BTreeSet<String> {
    let reach = Reach::connect(test_gateway, None);
    let way = Way { stage: test_gateway, server: &NPX, reach, prefix: String::new() };
    let mut client = Launched::start(script.command(&way, "look").env("CLIENT_NAME", PATIENT));
    let Ok(Some(line)) = client.line(PLAY) else { panic!("no list: {}", client.stderr()) };
    assert!(client.wait_exit(PLAY).success(), "{}", client.stderr());
    let seen: Seen = serde_json::from_slice::<Map<String, Value>>(&line).unwrap();
    let tools = seen["tools"].as_array().unwrap();
    let server = |tool: &Value| tool["name"].as_str()?.split_once("__").map(|(one, _)| one.into());
    tools.iter().filter_map(server).collect()
}

fn starts(test_gateway: &TestGateway) -> usize {
    let events = test_gateway.ostler(&["events", "--json"]);
    let events = events.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    events.filter(|event| event["event"] == "starting").count()
}

fn all_are_in_the_first_list(script: Script) {
    let test_gateway = cold();
    let all: BTreeSet<String> =
        NODE.iter().chain(&PYTHON).map(|(name, _)| (*name).into()).collect();
    assert_eq!(listed(script, &test_gateway), all);
    test_gateway.expect_no_server();
    wait_until("every start is told", PATIENCE, || starts(&test_gateway) == all.len());
    assert_eq!(listed(script, &test_gateway), all);
    assert_eq!(starts(&test_gateway), all.len(), "the second list starts nothing");
    test_gateway.down();
}

#[test]
fn ten_cold_servers_are_in_the_first_list_of_the_typescript_sdk() {
    all_are_in_the_first_list(TYPESCRIPT_1);
}

#[test]
fn ten_cold_servers_are_in_the_first_list_of_the_python_sdk() {
    all_are_in_the_first_list(PYTHON_2);
}
