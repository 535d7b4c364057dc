//! Start of a gateway by clients, and its idle exit.

use std::process::Stdio;

use ostler_testkit::{Launched, Stage, rows, wait_until};
use rustix::process::Signal;
use serde_json::json;

use crate::test_gateway::{Client, PATIENCE, TestGateway};

rows! {
    fn many_clients_at_once_start_one_gateway(stage) {
        let test_gateway = TestGateway::with(stage, &["a"], &json!({ "share": "all" }));
        let started: Vec<Launched> =
            (0..20).map(|_| Launched::start(&mut test_gateway.connect_command(&["a"]))).collect();
        let mut clients: Vec<Client> = started.into_iter().map(Client).collect();
        for client in &mut clients {
            assert!(client.0.initialize()["result"].is_object());
            client.echo();
        }
        assert_eq!(test_gateway.gateways().len(), 1);
        assert_eq!(test_gateway.starts("a").len(), 1);
        clients.into_iter().for_each(Client::end);
        test_gateway.down();
    }

    fn a_dead_gateways_socket_is_replaced(stage) {
        let test_gateway = TestGateway::with(stage, &["a"], &json!({}));
        let client = test_gateway.client(&["a"]);
        let first = test_gateway.gateways()[0];
        test_gateway.signal(first, Signal::KILL);
        drop(client);
        let mut next = test_gateway.client(&["a"]);
        next.echo();
        assert_ne!(test_gateway.gateways(), [first]);
        next.end();
        test_gateway.down();
    }

    fn an_unused_gateway_ends(stage) {
        let test_gateway = TestGateway::with(stage, &["a"], &json!({ "idleTimeout": "100ms" }));
        let mut gateway = test_gateway.serve(&["--idle-exit", "300ms"]);
        let mut client = test_gateway.client(&["a"]);
        client.echo();
        client.end();
        assert!(test_gateway.wait_exit(&mut gateway).success(), "{}", gateway.stderr());
        test_gateway.expect_no_process();
    }
}

#[test]
fn a_gateway_says_how_clients_reach_it() {
    let test_gateway = TestGateway::with(Stage::leaf(), &["a"], &json!({}));
    let socket = test_gateway.sandbox.file("s");
    let ways = [
        (vec![], format!("--config {}", test_gateway.config().display())),
        (vec!["--socket", socket.to_str().unwrap()], format!("--socket {}", socket.display())),
    ];
    for (words, way) in ways {
        let mut gateway = test_gateway.serve(&words);
        let said = format!("`ostler connect {way}`\n");
        wait_until("it says so", PATIENCE, || gateway.stderr().ends_with(&said));
        let mut connect = test_gateway.command(test_gateway.program());
        Client::start(connect.args(["connect", "a"]).args(way.split(' '))).end();
        assert_eq!(test_gateway.gateways(), [0; 0], "none but the one that runs is needed");
        gateway.signal(Signal::TERM);
        assert!(test_gateway.wait_exit(&mut gateway).success(), "{}", gateway.stderr());
        test_gateway.expect_no_process();
    }
}

#[test]
fn a_second_gateway_at_the_same_place_is_refused() {
    let test_gateway = TestGateway::with(Stage::leaf(), &["a"], &json!({}));
    let mut gateway = test_gateway.serve(&[]);
    let config = test_gateway.config();
    let second = test_gateway.try_ostler(&["serve", "--config", config.to_str().unwrap()]);
    assert_eq!(second.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&second.stderr).contains("a gateway already runs at"));
    test_gateway.down_with(&mut gateway);
}

#[test]
fn a_client_is_told_why_its_gateway_does_not_start() {
    let test_gateway = TestGateway::new(Stage::leaf());
    test_gateway.write("{ \"mcpServers\": { \"a\": { \"comand\": \"x\" } } }");
    let mut client = Launched::start(&mut test_gateway.connect_command(&["a"]));
    assert_eq!(test_gateway.wait_exit(&mut client).code(), Some(1));
    let said = client.stderr();
    assert!(said.contains("ostler.json:1:") && said.contains("command"), "{said}");
    test_gateway.expect_no_process();
}

#[test]
fn an_unknown_server_is_refused_with_the_known_names() {
    let test_gateway = TestGateway::with(Stage::leaf(), &["a", "b"], &json!({}));
    let mut client = Launched::start(&mut test_gateway.connect_command(&["c"]));
    assert_eq!(test_gateway.wait_exit(&mut client).code(), Some(1));
    assert_eq!(client.stderr(), "ostler: no server is called c; there are a, b\n");
    test_gateway.down();
}

#[test]
fn a_file_in_the_clients_directory_is_not_its_configuration() {
    let test_gateway = TestGateway::new(Stage::leaf());
    let clone = test_gateway.sandbox.file("clone");
    std::fs::create_dir(&clone).unwrap();
    let evil = json!({ "mcpServers": { "evil": test_gateway.stub("evil", &[], &json!({})) } });
    std::fs::write(clone.join("ostler.json"), evil.to_string()).unwrap();
    let mut command = test_gateway.command(test_gateway.program());
    let mut client = Client::start(command.arg("connect").current_dir(&clone));
    let tools = client.0.call("tools/list", &json!({}));
    assert!(tools.to_string().contains("example__echo"), "{tools}");
    assert_eq!(test_gateway.starts("evil").len(), 0);
    client.end();
    test_gateway.down();
}

#[test]
fn a_gateway_is_not_a_child_of_the_client_that_started_it() {
    let test_gateway = TestGateway::with(Stage::leaf(), &["a"], &json!({}));
    let client = test_gateway.client(&["a"]);
    let gateway = ostler_testkit::Process::read(test_gateway.gateways()[0]).unwrap();
    assert_ne!(gateway.ppid, client.0.pid());
    let own = ostler_testkit::Process::read(client.0.pid()).unwrap();
    assert!(gateway.sid != own.sid && gateway.pgid != own.pgid && gateway.comm == "ostler");
    client.end();
    test_gateway.down();
}

#[test]
fn the_example_shows_working_tools_at_once() {
    let test_gateway = TestGateway::new(Stage::leaf());
    let mut command = test_gateway.command(test_gateway.program());
    let mut client = Client::start(command.args(["connect", "example"]).stderr(Stdio::null()));
    let tools = client.0.call("tools/list", &json!({}));
    assert!(tools.to_string().contains("ostler found no configuration"), "{tools}");
    let sum = client.tool("add", &json!({ "a": 1, "b": 2 }));
    assert_eq!(sum["structuredContent"]["sum"], 3.0);
    client.begin(900, "wait", &json!({ "ms": 200 }));
    client.echo();
    let late = client.0.message(PATIENCE);
    assert_eq!(late["id"], 900);
    client.end();
    wait_until("no client is connected", PATIENCE, || {
        test_gateway.ostler_json(&["sessions", "--json"]).as_array().unwrap().is_empty()
    });
    test_gateway.down();
}
