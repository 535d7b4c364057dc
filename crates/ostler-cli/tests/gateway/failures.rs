//! Why a server died, and which clients came and went, as operators see it.

use std::fs;

use ostler_testkit::{Launched, Stage, wait_until};
use serde_json::{Value, json};

use crate::test_gateway::{PATIENCE, TestGateway};

/// Writes a control character and a secret to stderr, and exits with status 7.
const DYING: &str = r"printf 'cannot open \033[31mthe database\nusing token=s3cret\n' >&2; exit 7";

/// A gateway whose only server dies in its handshake.
fn gateway_of_a_dying_server() -> TestGateway {
    let test_gateway = TestGateway::new(Stage::leaf());
    test_gateway.configure(&[("a", json!({ "command": "sh", "args": ["-c", DYING] }))]);
    test_gateway
}

/// The text has the exit status and the last lines, with neither the secret nor the control character.
fn assert_explains(text: &str) {
    assert!(text.contains("exit status: 7"), "{text}");
    assert!(text.contains(r"cannot open \u{1b}[31mthe database"), "{text}");
    assert!(text.contains("token=…") && !text.contains("s3cret"), "{text}");
}

/// Connects a client whose server dies.
fn connect_in_vain(test_gateway: &TestGateway) -> Launched {
    let mut client = Launched::start(&mut test_gateway.connect_command(&["a"]));
    let answer = client.initialize();
    assert!(answer["error"].is_object(), "{answer}");
    client
}

#[test]
fn status_and_last_words_of_a_dead_server_are_shown_to_operators() {
    let test_gateway = gateway_of_a_dying_server();
    let mut gateway = test_gateway.serve(&[]);
    let client = connect_in_vain(&test_gateway);
    wait_until("the gateway has said it", PATIENCE, || gateway.stderr().contains("database"));
    assert_explains(&gateway.stderr());
    assert_explains(&test_gateway.ostler(&["ps", "--wide"]));
    wait_until("it is gone", PATIENCE, || test_gateway.ostler(&["events"]).contains("gone"));
    assert_explains(&test_gateway.ostler(&["events"]));
    let lines = test_gateway.ostler(&["events", "--json"]);
    let mut events = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let gone = events.rfind(|event| event["event"] == "gone").unwrap();
    assert_eq!(gone["failure"]["status"], "exit status: 7");
    let last = json!(["cannot open \u{1b}[31mthe database", "using token=…"]);
    assert_eq!(gone["failure"]["stderr"], last);
    drop(client);
    test_gateway.down_with(&mut gateway);
}

#[test]
fn the_log_of_a_gateway_in_the_background_says_why_a_server_died() {
    let test_gateway = gateway_of_a_dying_server();
    let client = connect_in_vain(&test_gateway);
    let log = || {
        let files = fs::read_dir(test_gateway.sandbox.state().join("ostler")).unwrap().flatten();
        let mut logs = files.filter(|file| file.path().extension().is_some_and(|e| e == "log"));
        fs::read_to_string(logs.next().unwrap().path()).unwrap()
    };
    wait_until("the log has it", PATIENCE, || log().contains("database"));
    assert_explains(&log());
    drop(client);
    test_gateway.down();
}

#[test]
fn clients_that_come_and_go_are_events_with_clock_times() {
    let test_gateway = TestGateway::with(Stage::leaf(), &["a"], &json!({}));
    let mut gateway = test_gateway.serve(&[]);
    let client = test_gateway.client(&["a", "--agent", "me"]);
    client.end();
    let events = || test_gateway.ostler(&["events", "--json"]);
    wait_until("it has left", PATIENCE, || events().contains("disconnected"));
    let events = events();
    let events: Vec<Value> =
        events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |name: &str| events.iter().find(|event| event["event"] == name).unwrap();
    let (came, went) = (of("connected"), of("disconnected"));
    for event in [came, went] {
        assert_eq!(event["server"], "a");
        assert!(event["detail"].as_str().unwrap().contains("agent me"), "{event}");
    }
    for event in &events {
        let at = event["at"].as_str().unwrap_or_else(|| panic!("{event}"));
        let shape: String = at.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        assert_eq!(shape, "0000-00-00T00:00:00.000Z");
    }
    // The same moment in two time zones.
    let shown = |zone: &str| {
        let output = test_gateway
            .command(test_gateway.program())
            .env("TZ", zone)
            .arg("events")
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let at = came["at"].as_str().unwrap();
    let utc = at.replace('T', " ").replace('Z', "");
    assert!(shown("UTC0").contains(&utc), "{utc}");
    assert!(!shown("NPT-5:45").contains(&utc), "{utc}");
    test_gateway.down_with(&mut gateway);
}
