//! Remote servers and logins, through the program.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use ostler_testkit::{
    FakeHttp, FakeIssuer, Heard, Manners, Part, Reply, Stage, get, standard, wait_until,
};
use rustix::process::Signal;
use serde_json::json;

use crate::test_gateway::{PATIENCE, TestGateway};

/// A server that keeps streams open.
fn listening(heard: &Heard) -> Reply {
    if heard.method == "GET" { Reply::stream([Part::Live]) } else { standard(heard) }
}

fn test_gateway(fake: &FakeHttp) -> TestGateway {
    let test_gateway = TestGateway::new(Stage::leaf());
    let entry = json!({
        "url": fake.url("/mcp/s3cret?key=s3cret"),
        "headers": { "X-Key": "${REMOTE_KEY:-s3cret}" },
    });
    test_gateway.configure(&[("far", entry)]);
    test_gateway
}

fn wait_closed(fake: &FakeHttp) {
    wait_until("all connections are closed", PATIENCE, || fake.open() == 0);
}

fn farewells(fake: &FakeHttp) -> usize {
    fake.count(|heard| heard.method == "DELETE")
}

#[test]
fn a_remote_server_is_shown_without_a_process_and_without_a_secret() {
    let fake = FakeHttp::new(listening);
    let test_gateway = test_gateway(&fake);
    let mut client = test_gateway.client(&["far"]);
    client.echo();
    let row = &test_gateway.instances()[0];
    assert_eq!((&row["name"], &row["state"]), (&json!("far"), &json!("ready")));
    assert_eq!(row["gateway"]["place"], fake.url(""));
    assert!(row["gateway"]["pid"].is_null());
    let config = test_gateway.config().display().to_string();
    let shown = [
        test_gateway.ostler(&["ps", "--wide"]),
        test_gateway.ostler(&["ps", "--tree"]),
        test_gateway.ostler(&["events"]),
        test_gateway.ostler(&["sessions"]),
        test_gateway.ostler(&["check", "--config", &config]),
        test_gateway.ostler(&["check", "--config", &config, "--json"]),
    ];
    for text in &shown {
        assert!(!text.contains("s3cret"), "{text}");
    }
    for text in [&shown[0], &shown[1], &shown[2], &shown[4], &shown[5]] {
        assert!(text.contains(&fake.url("")), "{text}");
    }
    assert_eq!(fake.heard()[0].header("x-key"), "s3cret");
    client.end();
    test_gateway.down();
    wait_closed(&fake);
    assert_eq!(farewells(&fake), 1);
}

#[test]
fn variables_of_a_client_are_its_own() {
    let fake = FakeHttp::new(standard);
    let test_gateway = test_gateway(&fake);
    for key in ["one", "two"] {
        let mut command = test_gateway.connect_command(&["far"]);
        let mut client = crate::test_gateway::Client::start(command.env("REMOTE_KEY", key));
        client.echo();
        let is_its_own =
            |heard: &Heard| heard.is_call("tools/call") && heard.header("x-key") == key;
        assert_eq!(fake.count(is_its_own), 1);
        client.end();
    }
    test_gateway.down();
}

#[test]
fn stop_ends_the_remote_session_and_the_next_call_opens_another() {
    let fake = FakeHttp::new(listening);
    let test_gateway = test_gateway(&fake);
    let mut client = test_gateway.client(&["far"]);
    client.echo();
    assert_eq!(test_gateway.ostler(&["stop", "far"]), "far: stopped\n");
    wait_closed(&fake);
    assert_eq!(farewells(&fake), 1);
    client.echo();
    assert_eq!(fake.count(|heard| heard.is_call("initialize")), 2);
    client.end();
    test_gateway.down();
}

#[test]
fn the_remote_session_of_a_killed_client_is_ended() {
    let fake = FakeHttp::new(listening);
    let test_gateway = test_gateway(&fake);
    let mut client = test_gateway.client(&["far"]);
    client.echo();
    client.0.signal(Signal::KILL);
    client.0.wait_exit(PATIENCE);
    wait_closed(&fake);
    assert_eq!(farewells(&fake), 1);
    test_gateway.down();
}

#[test]
fn a_gateway_that_ends_closes_every_remote_session() {
    let fake = FakeHttp::new(listening);
    let test_gateway = test_gateway(&fake);
    let mut gateway = test_gateway.serve(&[]);
    let mut clients = [test_gateway.client(&["far"]), test_gateway.client(&["far"])];
    clients.iter_mut().for_each(crate::test_gateway::Client::echo);
    gateway.signal(Signal::TERM);
    assert!(gateway.wait_exit(PATIENCE).success(), "{}", gateway.stderr());
    wait_closed(&fake);
    assert_eq!(farewells(&fake), 2);
    drop(clients);
    test_gateway.expect_no_process();
}

#[test]
fn a_gateway_that_is_killed_leaves_no_connection() {
    let fake = FakeHttp::new(listening);
    let test_gateway = test_gateway(&fake);
    let mut gateway = test_gateway.serve(&[]);
    let mut client = test_gateway.client(&["far"]);
    client.echo();
    assert!(fake.open() > 0);
    gateway.signal(Signal::KILL);
    gateway.wait_exit(PATIENCE);
    wait_closed(&fake);
    drop(client);
    test_gateway.expect_no_process();
}

#[test]
fn descriptors_return_to_the_baseline() {
    let fake = FakeHttp::new(listening);
    let test_gateway = test_gateway(&fake);
    let mut gateway = test_gateway.serve(&[]);
    let round = || {
        let mut client = test_gateway.client(&["far"]);
        client.echo();
        client.end();
        wait_closed(&fake);
    };
    round();
    let descriptors = || ostler_testkit::fds_of(gateway.pid()).len();
    let before = descriptors();
    (0..10).for_each(|_| round());
    wait_until("descriptors are closed", PATIENCE, || descriptors() <= before);
    assert_eq!(farewells(&fake), 11);
    test_gateway.down_with(&mut gateway);
}

#[test]
fn a_login_is_begun_in_a_terminal_and_lets_clients_in() {
    let issuer = FakeIssuer::new(Manners::default());
    let fake = FakeHttp::new(issuer.guard(standard));
    let test_gateway = TestGateway::new(Stage::leaf());
    test_gateway.configure(&[
        ("far", json!({ "url": fake.url("/mcp") })),
        ("near", json!({ "command": "true" })),
    ]);
    let config = test_gateway.config().display().to_string();
    let out = test_gateway.try_ostler(&["logout", "far", "--config", &config]);
    assert_eq!(out.status.code(), Some(3), "{out:?}");

    let mut command = test_gateway.command(test_gateway.program());
    command.args(["login", "far", "--no-browser", "--config", &config]);
    let mut login = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(login.stdout.take().unwrap()).lines();
    let page = lines.next().unwrap().unwrap();
    assert!(get(&page).1.contains("Logged in"));
    let said = lines.next().unwrap().unwrap();
    assert!(said.starts_with("far: logged in through http://127.0.0.1"), "{said}");
    assert!(login.wait().unwrap().success());

    let logins = test_gateway.sandbox.state().join("ostler/logins");
    let files: Vec<_> = std::fs::read_dir(&logins).unwrap().flatten().collect();
    assert_eq!(files.len(), 1);
    assert_eq!(files[0].metadata().unwrap().permissions().mode() & 0o777, 0o600);

    let mut client = test_gateway.client(&["far"]);
    client.echo();
    assert_eq!(test_gateway.ostler(&["logout", "far", "--config", &config]), "far: logged out\n");
    assert_eq!(std::fs::read_dir(&logins).unwrap().count(), 0);
    let params = json!({ "name": "echo", "arguments": {} });
    let failed = client.0.call("tools/call", &params);
    let text = failed["error"]["message"].as_str().unwrap();
    assert!(text.contains("`ostler login far`"), "{failed}");
    client.end();

    for (server, code) in [("nobody", 3), ("near", 1)] {
        let out = test_gateway.try_ostler(&["login", server, "--config", &config]);
        assert_eq!(out.status.code(), Some(code), "{out:?}");
    }
    test_gateway.down();
}
