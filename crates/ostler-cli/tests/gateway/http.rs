//! Clients on HTTP: the processes that they cause.

use std::process::{Command, Stdio};

use ostler_testkit::web::{Reply, Web, request};
use ostler_testkit::{Launched, Stage, rows, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::test_gateway::{PATIENCE, TestGateway, serve};

/// Detach timeout.
const AWAY: &str = "300ms";

/// These servers with `share: session`, and a short detach timeout.
fn configure(test_gateway: &TestGateway, servers: &[(&str, Value)]) {
    test_gateway.configure_with(servers, &json!({ "detachTimeout": AWAY }));
}

/// With one server.
fn one(stage: Stage, entry: impl FnOnce(&TestGateway) -> Value) -> (TestGateway, Launched, Web) {
    let test_gateway = TestGateway::new(stage);
    configure(&test_gateway, &[("a", entry(&test_gateway))]);
    let (gateway, address, token) = serve(&test_gateway);
    (test_gateway, gateway, Web::new(address, "/mcp/a", &token))
}

/// A server of each rude kind, and a session with each, one of which listens.
fn rude(stage: Stage) -> (TestGateway, Launched, Vec<(Web, Reply)>) {
    let (test_gateway, names) = TestGateway::rude(stage);
    let (gateway, address, token) = serve(&test_gateway);
    let client = |name: &String| {
        let web = Web::new(address, &format!("/mcp/{name}"), &token).enter();
        echo(&web);
        let listening = web.listen();
        (web, listening)
    };
    (test_gateway, gateway, names.iter().map(client).collect())
}

pub(crate) fn echo(web: &Web) {
    web.tool("echo", &json!({ "message": "x" }));
}

/// Program that keeps an event stream open, as a separate process.
fn listening_process(test_gateway: &TestGateway, web: &Web) -> Launched {
    let script = r#"exec 3<>/dev/tcp/$0/$1; printf '%s' "$2" >&3; read -r line <&3; echo "$line"; exec cat <&3 >/dev/null"#;
    let (host, port) = (web.address.ip().to_string(), web.address.port().to_string());
    let mut command: Command = test_gateway.command("bash");
    command.args(["-c", script, &host, &port, &web.text("GET", "")]).stdin(Stdio::null());
    let mut process = Launched::start(&mut command);
    let line = process.line(PATIENCE).unwrap().unwrap();
    assert!(line.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&line));
    process
}

rows! {
    fn s12_l38_the_instance_of_a_disconnected_client_ends(stage) {
        let (test_gateway, mut gateway, web) = one(stage, |test_gateway| test_gateway.example(&json!({})));
        let inside = web.enter();
        let arguments = json!({ "name": "wait", "arguments": { "ms": 600_000 } });
        let begun = inside.begin("POST", &request(&json!(9), "tools/call", &arguments));
        test_gateway.expect_calls(1);
        drop(begun);
        test_gateway.expect_no_server();
        // The session is still valid and gets a new instance.
        echo(&inside);
        assert_eq!(test_gateway.instances().len(), 1);
        assert_eq!(inside.send("DELETE", "").status, 200);
        test_gateway.expect_no_server();
        assert_eq!(inside.send("DELETE", "").status, 404);
        test_gateway.down_with(&mut gateway);
    }

    fn s12_a_client_that_is_killed_leaves_nothing(stage) {
        let (test_gateway, mut gateway, web) = one(stage, |test_gateway| test_gateway.stub("a", &[], &json!({})));
        let inside = web.enter();
        let mut client = listening_process(&test_gateway, &inside);
        echo(&inside);
        echo(&web.enter());
        // The client without an event stream is detached, the other one is not.
        wait_until("one server is left", PATIENCE, || test_gateway.named("ostler-stub").len() == 1);
        let sessions = test_gateway.ostler_json(&["sessions", "--json"]);
        assert_eq!(sessions.as_array().unwrap().len(), 1, "{sessions}");
        echo(&inside);
        assert_eq!(test_gateway.starts("a").len(), 2, "it listens, so that it has kept its server");
        client.signal(Signal::KILL);
        client.wait_exit(PATIENCE);
        test_gateway.expect_no_server();
        test_gateway.down_with(&mut gateway);
    }

    fn l37_a_stopped_client_with_an_open_stream_keeps_no_idle_server(stage) {
        let (test_gateway, mut gateway, web) = one(stage, |test_gateway| test_gateway.stub("a", &[], &json!({ "idleTimeout": "500ms" })));
        let inside = web.enter();
        let mut client = listening_process(&test_gateway, &inside);
        echo(&inside);
        client.signal(Signal::STOP);
        test_gateway.expect_no_server();
        // No other client waits, and the stopped one is served when it continues.
        echo(&web.enter());
        client.signal(Signal::CONT);
        echo(&inside);
        drop(client);
        test_gateway.down_with(&mut gateway);
    }

    fn s16_a_gateway_that_is_stopped_leaves_nothing(stage) {
        let (test_gateway, mut gateway, clients) = rude(stage);
        gateway.signal(Signal::TERM);
        for (_, mut listening) in clients {
            assert_eq!(listening.said(), None);
        }
        assert!(test_gateway.wait_exit(&mut gateway).success(), "{}", gateway.stderr());
        test_gateway.expect_no_process();
    }

    fn s16_a_gateway_that_is_killed_leaves_nothing(stage) {
        let (test_gateway, mut gateway, clients) = rude(stage);
        gateway.signal(Signal::KILL);
        for (_, mut listening) in clients {
            assert_eq!(listening.said(), None);
        }
        gateway.wait_exit(PATIENCE);
        test_gateway.expect_no_process();
        let (mut gateway, address, token) = serve(&test_gateway);
        echo(&Web::new(address, "/mcp/rude0", &token).enter());
        test_gateway.down_with(&mut gateway);
    }
}

#[test]
fn other_machines_are_admitted_only_with_beyond_loopback() {
    let test_gateway = TestGateway::with(Stage::leaf(), &["a"], &json!({}));
    let mut command = test_gateway.command(test_gateway.program());
    command.args(["serve", "--listen", "0.0.0.0:0", "--config"]).arg(test_gateway.config());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("--beyond-loopback"), "{said}");
    assert_eq!(output.status.code(), Some(1));
    let mut gateway = test_gateway.serve(&["--listen", "0.0.0.0:0", "--beyond-loopback"]);
    let said = gateway.stderr();
    assert!(said.contains("warning: "), "{said}");
    test_gateway.down_with(&mut gateway);
}
