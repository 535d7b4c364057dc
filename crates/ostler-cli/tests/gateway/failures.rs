//! Why a server died, and which clients came and went, as operators see it.

use std::fs;

use ostler_testkit::{Launched, Stage, wait_until};
use serde_json::{Value, json};

use crate::house::{House, PATIENCE};

/// Writes a control character and a secret to stderr, and exits with status 7.
const DYING: &str = r"printf 'cannot open \033[31mthe database\nusing token=s3cret\n' >&2; exit 7";

/// A house whose only server dies in its handshake.
fn house_of_a_dying_server() -> House {
    let house = House::new(Stage::leaf());
    house.configure(&[("a", json!({ "command": "sh", "args": ["-c", DYING] }))]);
    house
}

/// The text has the exit status and the last lines, with neither the secret nor the control character.
fn assert_explains(text: &str) {
    assert!(text.contains("exit status: 7"), "{text}");
    assert!(text.contains(r"cannot open \u{1b}[31mthe database"), "{text}");
    assert!(text.contains("token=…") && !text.contains("s3cret"), "{text}");
}

/// Connects a client whose server dies.
fn connect_in_vain(house: &House) -> Launched {
    let mut client = Launched::start(&mut house.connect_command(&["a"]));
    let answer = client.initialize();
    assert!(answer["error"].is_object(), "{answer}");
    client
}

#[test]
fn status_and_last_words_of_a_dead_server_are_shown_to_operators() {
    let house = house_of_a_dying_server();
    let mut gateway = house.serve(&[]);
    let client = connect_in_vain(&house);
    wait_until("the gateway has said it", PATIENCE, || gateway.stderr().contains("database"));
    assert_explains(&gateway.stderr());
    assert_explains(&house.ostler(&["ps", "--wide"]));
    wait_until("it is gone", PATIENCE, || house.ostler(&["events"]).contains("gone"));
    assert_explains(&house.ostler(&["events"]));
    let lines = house.ostler(&["events", "--json"]);
    let mut events = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let gone = events.rfind(|event| event["event"] == "gone").unwrap();
    assert_eq!(gone["failure"]["status"], "exit status: 7");
    let last = json!(["cannot open \u{1b}[31mthe database", "using token=…"]);
    assert_eq!(gone["failure"]["stderr"], last);
    drop(client);
    house.down_with(&mut gateway);
}

#[test]
fn the_log_of_a_gateway_in_the_background_says_why_a_server_died() {
    let house = house_of_a_dying_server();
    let client = connect_in_vain(&house);
    let log = || {
        let files = fs::read_dir(house.sandbox.state().join("ostler")).unwrap().flatten();
        let mut logs = files.filter(|file| file.path().extension().is_some_and(|e| e == "log"));
        fs::read_to_string(logs.next().unwrap().path()).unwrap()
    };
    wait_until("the log has it", PATIENCE, || log().contains("database"));
    assert_explains(&log());
    drop(client);
    house.down();
}

#[test]
fn clients_that_come_and_go_are_events_with_clock_times() {
    let house = House::with(Stage::leaf(), &["a"], &json!({}));
    let mut gateway = house.serve(&[]);
    let client = house.client(&["a", "--agent", "me"]);
    client.end();
    let events = || house.ostler(&["events", "--json"]);
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
    // The same moment on the clocks of two places.
    let shown = |zone: &str| {
        let output = house.command(house.program()).env("TZ", zone).arg("events").output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let at = came["at"].as_str().unwrap();
    let utc = at.replace('T', " ").replace('Z', "");
    assert!(shown("UTC0").contains(&utc), "{utc}");
    assert!(!shown("NPT-5:45").contains(&utc), "{utc}");
    house.down_with(&mut gateway);
}
