//! `ps` for a gateway: states, restarts, clients, and a table that fits the terminal.

use ostler_testkit::{Launched, Stage, is_alive, rows, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::test_gateway::{Client, PATIENCE, TestGateway};

/// Waits until the only instance has this state.
fn expect_state(test_gateway: &TestGateway, state: &str) {
    wait_until(&format!("it is {state}"), PATIENCE, || {
        let rows = test_gateway.instances();
        rows.len() == 1 && rows[0]["state"] == state && rows[0]["gateway"]["state"] == state
    });
}

fn states_in_table(test_gateway: &TestGateway) -> Vec<String> {
    let table = test_gateway.ostler(&["ps"]);
    let state = |line: &str| line.split_whitespace().nth(1).map(ToOwned::to_owned);
    table.lines().skip(1).filter_map(state).collect()
}

rows! {
    fn the_state_follows_the_instance(stage) {
        let test_gateway = TestGateway::new(stage);
        let (go, slow) = (test_gateway.sandbox.file("go"), ["--answer", "slow", "--slow-ms", "1500"]);
        let switches: Vec<&str> = slow.into_iter().chain(["--ignore-eof", "--ignore-term"]).collect();
        test_gateway.configure(&[("a", test_gateway.stub("a", &switches, &json!({ "grace": "3s" })))]);
        let mut launched = Launched::start(&mut test_gateway.connect_command(&["a", "--agent", "me"]));
        launched.send(&json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": { "name": "ostler-testkit", "version": "0" } } }));
        wait_until("its process runs", PATIENCE, || test_gateway.starts("a").len() == 1);
        wait_until("it is on record", PATIENCE, || !test_gateway.instances().is_empty());
        assert_eq!(states_in_table(&test_gateway), ["starting"]);
        assert_eq!(test_gateway.instances()[0]["state"], "starting");
        assert!(launched.message(PATIENCE)["result"].is_object());
        let mut client = Client(launched);
        client.0.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        client.echo();
        expect_state(&test_gateway, "ready");
        client.begin(7, "echo", &json!({ "until": go }));
        expect_state(&test_gateway, "busy");
        std::fs::write(&go, "").unwrap();
        assert_eq!(client.0.message(PATIENCE)["id"], 7);
        expect_state(&test_gateway, "ready");
        client.end();
        expect_state(&test_gateway, "idle");
        assert_eq!(states_in_table(&test_gateway), ["idle"]);
        let mut stop = Launched::start(test_gateway.command(test_gateway.program()).args(["stop", "a"]));
        expect_state(&test_gateway, "stopping");
        assert!(test_gateway.wait_exit(&mut stop).success());
        test_gateway.down();
    }

    fn a_draining_instance_waits_for_its_calls(stage) {
        let test_gateway = TestGateway::with(stage, &["a"], &json!({}));
        let (go, mut client) = (test_gateway.sandbox.file("go"), test_gateway.client(&["a"]));
        client.begin(7, "echo", &json!({ "until": go }));
        test_gateway.expect_calls(1);
        let mut stop = Launched::start(test_gateway.command(test_gateway.program()).args(["stop", "a"]));
        expect_state(&test_gateway, "draining");
        std::fs::write(&go, "").unwrap();
        assert_eq!(client.0.message(PATIENCE)["id"], 7);
        assert!(test_gateway.wait_exit(&mut stop).success());
        client.end();
        test_gateway.down();
    }

    fn a_restart_is_counted_where_it_happened(stage) {
        let test_gateway = TestGateway::with(
            stage, &["a"], &json!({ "share": "all", "maxInstances": 3, "maxConcurrency": 1 }),
        );
        let go = test_gateway.sandbox.file("go");
        // Each comes while all instances are busy, so it gets a new one.
        let busy_client = |calls: u64| {
            let mut client = test_gateway.client(&["a"]);
            client.begin(7, "echo", &json!({ "until": go }));
            test_gateway.expect_calls(calls);
            client
        };
        let clients: Vec<Client> = (1..=3).map(busy_client).collect();
        assert_eq!(test_gateway.starts("a").len(), 3);
        assert_eq!(restarts(&test_gateway), [0, 0, 0]);
        test_gateway.signal(test_gateway.starts("a")[1], Signal::KILL);
        wait_until("it is gone", PATIENCE, || test_gateway.instances().len() == 2);
        assert_eq!(restarts(&test_gateway), [0, 0]);
        // While a server backs off, a caller gets a busy instance rather than none.
        wait_until("it may be started again", PATIENCE, || {
            !test_gateway.ostler(&["ps"]).contains("next try in")
        });
        let mut fourth = busy_client(3);
        assert_eq!(test_gateway.starts("a").len(), 4);
        assert_eq!(restarts(&test_gateway), [0, 0, 1]);
        std::fs::write(&go, "").unwrap();
        assert_eq!(fourth.0.message(PATIENCE)["id"], 7);
        fourth.end();
        drop(clients);
        test_gateway.down();
    }

    fn an_instance_names_its_mcp_clients(stage) {
        let test_gateway = TestGateway::with(stage, &["a"], &json!({ "share": "all" }));
        let mut clients = [test_gateway.client(&["a"]), test_gateway.client(&["a"])];
        clients.iter_mut().for_each(Client::echo);
        assert_eq!(test_gateway.instances()[0]["gateway"]["clients"], json!(["ostler-testkit"]));
        let table = test_gateway.ostler(&["ps"]);
        assert!(table.lines().nth(1).unwrap().ends_with("  ostler-testkit"), "{table}");
        clients.into_iter().for_each(Client::end);
        test_gateway.down();
    }
}

fn restarts(test_gateway: &TestGateway) -> Vec<u64> {
    let rows = test_gateway.instances();
    rows.iter().map(|row| row["gateway"]["restarts"].as_u64().unwrap()).collect()
}

#[test]
fn a_missing_program_is_never_shown_as_running() {
    let test_gateway = TestGateway::new(Stage::leaf());
    test_gateway.configure(&[("a", json!({ "command": "/nonexistent/program" }))]);
    let mut client = Launched::start(&mut test_gateway.connect_command(&["a"]));
    assert!(client.initialize()["error"].is_object());
    let events = test_gateway.ostler(&["events", "--json"]);
    let events: Vec<Value> =
        events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told = |name: &str| events.iter().any(|event| event["event"] == name);
    assert!(told("starting") && told("gone") && !told("running"), "{events:?}");
    client.close_stdin();
    test_gateway.wait_exit(&mut client);
    test_gateway.down();
}

/// The guardian is stopped, so it cannot notice the end of its server.
#[test]
fn an_instance_without_a_process_is_not_shown_as_running() {
    let test_gateway = TestGateway::new(Stage::leaf());
    let mut run = test_gateway.wrap(&[]);
    let (server, guardian) = (test_gateway.sandbox.pids()[0], test_gateway.guardians()[0]);
    assert_eq!(test_gateway.instances()[0]["state"], "running");
    test_gateway.signal(guardian, Signal::STOP);
    test_gateway.signal(server, Signal::KILL);
    wait_until("it is dead", PATIENCE, || !is_alive(server));
    assert_eq!(test_gateway.instances()[0]["state"], "ending");
    test_gateway.signal(guardian, Signal::CONT);
    test_gateway.wait_exit(&mut run);
    test_gateway.expect_no_process();
}

#[test]
fn the_table_fits_80_columns_unless_wide_is_given() {
    let test_gateway = TestGateway::new(Stage::leaf());
    let long = "a-server-with-quite-a-long-name-of-its-own-that-nobody-types-by-hand";
    test_gateway.configure(&[
        ("b", test_gateway.stub("b", &[], &json!({}))),
        (long, test_gateway.stub("a", &[], &json!({}))),
    ]);
    let mut clients = [test_gateway.client(&[long]), test_gateway.client(&["b"])];
    clients.iter_mut().for_each(Client::echo);
    let table = test_gateway.ostler(&["ps"]);
    assert_eq!(table.lines().count(), 3, "{table}");
    assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
    let headers: Vec<&str> = table.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(headers, ["NAME", "STATE", "PID", "PROCS", "RSS", "AGE", "CALLS", "CLIENT"]);
    assert!(table.contains("\na-server-with-"), "{table}");
    let wide = test_gateway.ostler(&["ps", "--wide"]);
    let headers: Vec<&str> = wide.lines().next().unwrap().split_whitespace().collect();
    let all = [
        "NAME",
        "STATE",
        "LEVEL",
        "PID",
        "PROCS",
        "CONTAINERS",
        "RSS",
        "AGE",
        "LEASES",
        "CALLS",
        "RESTARTS",
        "KEY",
        "COMMAND",
        "OWNER",
        "CLIENT",
    ];
    assert_eq!(headers, all);
    assert!(wide.contains(long), "{wide}");
    clients.into_iter().for_each(Client::end);
    test_gateway.down();
}
