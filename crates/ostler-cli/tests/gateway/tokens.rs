//! Tokens of clients on HTTP.

use std::net::SocketAddr;

use ostler_testkit::web::{Web, hello, request};
use ostler_testkit::{Launched, Stage, wait_until};
use serde_json::{Value, json};

use crate::http::echo;
use crate::test_gateway::{Client, PATIENCE, TestGateway, address_in, serve};

pub(crate) const CI: &str = "token-of-the-ci-0123";
pub(crate) const TEAM: &str = "token-of-the-team-0123";

#[test]
fn the_token_is_created_once_and_never_printed() {
    let test_gateway = TestGateway::with(Stage::leaf(), &["a"], &json!({}));
    let (mut gateway, address, token) = serve(&test_gateway);
    assert_eq!(token.len(), 64);
    let said = gateway.stderr();
    assert!(said.contains("/ostler/token") && !said.contains(&token), "{said}");
    assert_eq!(Web::new(address, "/mcp/a", "wrong").send("POST", "").status, 401);
    test_gateway.down_with(&mut gateway);
    let (mut gateway, _, again) = serve(&test_gateway);
    assert_eq!(again, token);
    test_gateway.down_with(&mut gateway);
}

#[test]
fn the_token_can_be_set_by_a_variable() {
    let test_gateway = TestGateway::with(Stage::leaf(), &["a"], &json!({}));
    let serve = |token: &str| {
        let mut command = test_gateway.command(test_gateway.program());
        command.args(["serve", "--listen", "127.0.0.1:0", "--config"]).arg(test_gateway.config());
        Launched::start(command.env("OSTLER_TOKEN", token))
    };
    let mut weak = serve("short");
    assert_eq!(weak.wait_exit(PATIENCE).code(), Some(1));
    assert!(weak.stderr().contains("at least 16 characters"), "{}", weak.stderr());
    let mut gateway = serve("given-by-its-user");
    wait_until("the gateway serves", PATIENCE, || gateway.stderr().contains("serves"));
    assert!(gateway.stderr().contains("its token is in OSTLER_TOKEN"), "{}", gateway.stderr());
    assert!(!test_gateway.sandbox.state().join("ostler/token").exists());
    test_gateway.down_with(&mut gateway);
}

/// A gateway with these tokens, and two servers.
fn with_tokens(test_gateway: &TestGateway, tokens: &Value) -> (Launched, SocketAddr) {
    configure(test_gateway, tokens);
    serve_tokens(test_gateway)
}

/// A gateway with the configuration as it stands, whose tokens are those above.
pub(crate) fn serve_tokens(test_gateway: &TestGateway) -> (Launched, SocketAddr) {
    let mut command = test_gateway.command(test_gateway.program());
    command.args(["serve", "--listen", "127.0.0.1:0", "--config"]).arg(test_gateway.config());
    let gateway = Launched::start(command.env("CI_TOKEN", CI).env("TEAM_TOKEN", TEAM));
    wait_until("the gateway serves", PATIENCE, || gateway.stderr().contains("ostler.json at"));
    let address = address_in(&gateway.stderr());
    (gateway, address)
}

fn configure(test_gateway: &TestGateway, tokens: &Value) {
    let stub = |name| test_gateway.stub(name, &[], &json!({}));
    let servers = json!({ "a": stub("a"), "b": stub("b") });
    test_gateway.write(&json!({ "mcpServers": servers, "tokens": tokens }).to_string());
}

#[test]
fn a_token_of_the_configuration_has_its_agent_and_its_servers() {
    let test_gateway = TestGateway::new(Stage::leaf());
    let tokens = json!({
        "ci": { "token": "${CI_TOKEN}", "agent": "ci", "servers": ["a"] },
        "none": { "token": "${NOT_SET}" },
        "twice": { "token": CI },
    });
    let (mut gateway, address) = with_tokens(&test_gateway, &tokens);
    let said = gateway.stderr();
    for unusable in ["tokens.none: NOT_SET is not set", "tokens.twice: another token is the same"] {
        assert!(said.contains(unusable), "{said}");
    }
    assert!(!said.contains(CI), "{said}");
    let ci = |path: &str| Web::new(address, path, CI);
    echo(&ci("/mcp/a").enter());
    let sessions = test_gateway.ostler_json(&["sessions", "--json"]).to_string();
    assert!(sessions.contains("\"ci\""), "{sessions}");
    let hello = hello("2025-11-25", &json!({}));
    assert_eq!(ci("/mcp/b").send("POST", &hello).status, 404);
    let other = ci("/mcp/a").with("Ostler-Agent", "other");
    assert_eq!(other.send("POST", &hello).status, 403);
    let all = ci("/mcp").enter();
    let list = all.request(&json!(1), "tools/list", &json!({})).message();
    let names = list["result"]["tools"].to_string();
    assert!(names.contains("a__echo") && !names.contains("b__echo"), "{list}");
    assert!(test_gateway.starts("b").is_empty());
    test_gateway.down_with(&mut gateway);
}

/// Agents of the same name but of different tokens are different agents.
#[test]
fn an_agent_name_of_one_token_reaches_no_instance_of_another() {
    let test_gateway = TestGateway::new(Stage::leaf());
    let tokens = json!({
        "ci": { "token": "${CI_TOKEN}", "agent": "ci" },
        "team": { "token": "${TEAM_TOKEN}" },
    });
    let (mut gateway, address) = with_tokens(&test_gateway, &tokens);
    let ci = Web::new(address, "/mcp/a", CI).enter();
    let team = Web::new(address, "/mcp/a", TEAM).with("Ostler-Agent", "ci").enter();
    echo(&ci);
    echo(&team);
    let of_a = test_gateway.starts("a");
    assert_eq!(of_a.len(), 2, "each token's agent has an instance of its own: {of_a:?}");
    test_gateway.down_with(&mut gateway);
}

#[test]
fn sessions_end_when_their_token_is_removed() {
    let test_gateway = TestGateway::new(Stage::leaf());
    let team = json!({ "token": "${TEAM_TOKEN}", "servers": ["b"] });
    let tokens = json!({ "ci": { "token": "${CI_TOKEN}", "servers": ["a"] }, "team": team });
    let (mut gateway, address) = with_tokens(&test_gateway, &tokens);
    let ci = Web::new(address, "/mcp/a", CI).enter();
    echo(&ci);
    let mut listening = ci.listen();
    let mut old = Web::new(address, "/sse/a", CI).listen();
    assert_eq!(old.event().unwrap().name.as_deref(), Some("endpoint"));
    let team_at = Web::new(address, "/mcp/b", TEAM).enter();
    echo(&team_at);
    let _team_listens = team_at.listen();
    configure(&test_gateway, &json!({ "team": team }));
    assert_eq!((listening.said(), old.said()), (None, None));
    let ping = request(&json!(1), "ping", &json!({}));
    assert_eq!(ci.send("POST", &ping).status, 401);
    wait_until("its server has gone", PATIENCE, || {
        test_gateway.instances().iter().all(|instance| instance["name"] == "b")
    });
    // Other tokens are not affected.
    assert_eq!(team_at.send("POST", &ping).status, 200);
    assert_eq!(test_gateway.instances().len(), 1);
    // A token with other permissions counts as another token.
    configure(&test_gateway, &json!({ "team": { "token": "${TEAM_TOKEN}", "servers": ["a"] } }));
    wait_until("the session has gone", PATIENCE, || team_at.send("POST", &ping).status == 404);
    test_gateway.down_with(&mut gateway);
}

#[test]
fn no_server_inherits_a_token() {
    let test_gateway = TestGateway::new(Stage::leaf());
    let greedy = test_gateway.stub("a", &[], &json!({ "inheritEnv": ["*"], "share": "session" }));
    let tokens = json!({ "ci": { "token": "${CI_TOKEN}" } });
    test_gateway.configure_with(&[("a", greedy)], &json!({ "tokens": tokens }));
    let variables =
        [("OSTLER_TOKEN", TEAM), ("CI_TOKEN", CI), ("OSTLER_AGENT", "me"), ("MINE", "1")];
    let mut command = test_gateway.command(test_gateway.program());
    command.args(["serve", "--listen", "127.0.0.1:0", "--config"]).arg(test_gateway.config());
    let mut gateway = Launched::start(command.envs(variables));
    wait_until("the gateway serves", PATIENCE, || gateway.stderr().contains("ostler.json at"));
    // The variables are the gateway's for a client on HTTP, and the client's own for one that connects.
    echo(&Web::new(address_in(&gateway.stderr()), "/mcp/a", CI).enter());
    let mut client = Client::start(test_gateway.connect_command(&["a"]).envs(variables));
    client.echo();

    let of = |pid: u32| {
        String::from_utf8(std::fs::read(format!("/proc/{pid}/environ")).unwrap()).unwrap()
    };
    let servers: Vec<String> = test_gateway.starts("a").into_iter().map(of).collect();
    assert_eq!(servers.len(), 2);
    for environment in &servers {
        let names: Vec<&str> =
            environment.split('\0').filter_map(|pair| pair.split('=').next()).collect();
        assert!(names.contains(&"MINE"), "{names:?}");
        let own = ["OSTLER_TOKEN", "CI_TOKEN", "OSTLER_AGENT"];
        assert!(!names.iter().any(|name| own.contains(name)), "{names:?}");
    }
    let guardians: Vec<String> = test_gateway.guardians().into_iter().map(of).collect();
    let all = [servers, guardians].concat().concat();
    assert!(!all.contains(CI) && !all.contains(TEAM), "a token is in an environment");
    client.end();
    test_gateway.down_with(&mut gateway);
}
