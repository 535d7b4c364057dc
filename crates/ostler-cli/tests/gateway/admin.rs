//! Operator commands: ps, why, stop, restart, sessions, events.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use ostler_testkit::{Stage, is_alive, rows, wait_until};
use serde_json::{Value, json};

use crate::test_gateway::{PATIENCE, TestGateway};

rows! {
    fn ps_shows_the_agents_and_leases_of_an_instance(stage) {
        let test_gateway = TestGateway::with(stage, &["a"], &json!({}));
        let mut client = test_gateway.client(&["a", "--agent", "me"]);
        client.echo();
        let pid = test_gateway.starts("a")[0];
        let row = &test_gateway.instances()[0];
        assert_eq!((&row["name"], &row["pid"]), (&json!("a"), &json!(pid)));
        let known = &row["gateway"];
        assert_eq!((&known["state"], &known["calls"]), (&json!("ready"), &json!(0)));
        assert_eq!((&known["restarts"], &known["leases"].as_array().unwrap().len()), (&json!(0), &1));
        assert!(known["key"].as_str().unwrap().starts_with("agent me"), "{known}");
        let why = test_gateway.ostler(&["why", &pid.to_string()]);
        assert!(why.contains("held by     agent me, session"), "{why}");
        client.end();
        test_gateway.down();
    }

    fn stop_ends_an_instance_and_the_next_call_starts_another(stage) {
        let test_gateway = TestGateway::with(stage, &["a"], &json!({}));
        let mut client = test_gateway.client(&["a"]);
        client.echo();
        let first = test_gateway.starts("a")[0];
        assert_eq!(test_gateway.ostler(&["stop", "a"]), "a: stopped\n");
        assert!(!is_alive(first));
        client.echo();
        assert_eq!(test_gateway.starts("a").len(), 2);
        let row = &test_gateway.instances()[0]["gateway"];
        assert_eq!(row["restarts"], 1);
        client.end();
        test_gateway.down();
    }

    fn restart_ends_all_instances_of_a_server(stage) {
        let test_gateway = TestGateway::with(stage, &["a"], &json!({}));
        let mut clients = [test_gateway.client(&["a"]), test_gateway.client(&["a"])];
        clients.iter_mut().for_each(crate::test_gateway::Client::echo);
        assert_eq!(test_gateway.ostler(&["restart", "a"]), "a: stopped 2; the next call starts a new one\n");
        assert!(test_gateway.starts("a").iter().all(|pid| !is_alive(*pid)));
        assert_eq!(test_gateway.try_ostler(&["restart", "nobody"]).status.code(), Some(3));
        clients.into_iter().for_each(crate::test_gateway::Client::end);
        test_gateway.down();
    }
}

#[test]
fn events_follow_an_instance_from_start_to_end() {
    let test_gateway = TestGateway::with(Stage::leaf(), &["a"], &json!({}));
    let mut client = test_gateway.client(&["a"]);
    client.echo();
    let mut command = test_gateway.command(test_gateway.program());
    let mut follower = command
        .args(["events", "--follow", "--json"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    let mut seen = Vec::new();
    let mut until = |event: &str| {
        while seen.last().is_none_or(|last| last != event) {
            let line: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
            assert!(line["server"].is_null() || line["server"] == "a", "{line}");
            seen.push(line["event"].as_str().unwrap().to_owned());
        }
    };
    until("ready");
    test_gateway.ostler(&["stop", "a"]);
    until("gone");
    client.end();
    test_gateway.ostler(&["down"]);
    wait_until("the follower ends with the gateway", PATIENCE, || {
        follower.try_wait().unwrap().map(|status| assert!(status.success()))
    });
    test_gateway.expect_no_process();
}

#[test]
fn every_command_that_needs_a_gateway_reports_that_none_runs() {
    let test_gateway = TestGateway::new(Stage::leaf());
    for words in [&["sessions"][..], &["events"], &["reload"], &["down"], &["restart", "a"]] {
        let output = test_gateway.try_ostler(words);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(3), "{words:?}: {said}");
        assert!(said.contains("no gateway runs"), "{words:?}: {said}");
    }
    assert_eq!(test_gateway.ostler(&["ps"]), "no servers\n");
}

#[test]
fn a_command_asks_for_the_socket_if_several_gateways_run() {
    let test_gateway = TestGateway::with(Stage::leaf(), &["a"], &json!({}));
    let other = test_gateway.sandbox.runtime().join("ostler/gateway-other.sock");
    let mut first = test_gateway.client(&["a"]);
    let mut second = test_gateway.client(&["a", "--socket", other.to_str().unwrap()]);
    first.echo();
    second.echo();
    assert_eq!(test_gateway.instances().iter().filter(|row| row["gateway"].is_object()).count(), 2);
    let output = test_gateway.try_ostler(&["sessions"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("gateway-other.sock"));
    test_gateway.ostler(&["down", "--socket", other.to_str().unwrap()]);
    drop(second);
    first.echo();
    first.end();
    test_gateway.down();
}
