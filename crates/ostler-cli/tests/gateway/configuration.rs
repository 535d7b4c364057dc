//! What the configuration says, and what becomes of it when that changes.

use std::process::Output;

use ostler_testkit::{Launched, Stage, is_alive, rows, wait_until};
use serde_json::{Value, json};

use crate::house::{Client, House, PATIENCE};

const SECRET: &str = "s3cr3t-do-not-show";

rows! {
    fn l41_a_disabled_server_is_never_started(stage) {
        let house = House::new(stage);
        let (on, off) = (json!({ "share": "all" }), json!({ "enabled": false }));
        let servers = |b: &Value| [("a", house.stub("a", &[], &on)), ("b", house.stub("b", &[], b))];
        house.configure(&servers(&off));
        let mut client = house.client(&[]);
        let tools = client.0.call("tools/list", &json!({})).to_string();
        assert!(tools.contains("a__echo") && !tools.contains("b__"), "{tools}");
        let mut refused = Launched::start(&mut house.connect_command(&["b"]));
        assert_eq!(house.wait_exit(&mut refused).code(), Some(1));
        assert!(refused.stderr().contains("enabled: false"), "{}", refused.stderr());
        assert_eq!(house.starts("b").len(), 0);
        // Switched on, used, and switched off again.
        house.configure(&servers(&on));
        house.ostler(&["reload"]);
        let mut user = house.client(&["b"]);
        user.echo();
        let live = house.starts("b")[0];
        house.configure(&servers(&off));
        house.ostler(&["reload"]);
        wait_until("it is gone", PATIENCE, || !is_alive(live));
        assert_eq!(house.starts("b").len(), 1);
        client.end();
        user.end();
        house.down();
    }

    fn a_reload_is_a_difference(stage) {
        let house = House::with(stage, &["kept", "changed", "removed"], &json!({ "share": "all" }));
        let mut clients = ["kept", "changed", "removed"].map(|name| house.client(&[name]));
        clients.iter_mut().for_each(Client::echo);
        let before = ["kept", "changed", "removed"].map(|name| house.starts(name)[0]);
        let more = json!({ "share": "all" });
        house.configure(&[
            ("kept", house.stub("kept", &[], &more)),
            ("changed", house.stub("changed", &["--stderr-bytes", "1"], &more)),
            ("added", house.stub("added", &[], &more)),
        ]);
        let said = house.ostler_json(&["reload", "--json"]);
        // The watcher may have been first.
        assert!(said["kept"].as_array().unwrap().contains(&json!("kept")), "{said}");
        wait_until("the others are gone", PATIENCE, || !is_alive(before[1]) && !is_alive(before[2]));
        let [kept, changed, removed] = &mut clients;
        kept.echo();
        assert_eq!(house.starts("kept"), [before[0]]);
        assert_eq!(house.starts("changed").len(), 1, "it was started although nobody called");
        changed.echo();
        assert_eq!(house.starts("changed").len(), 2);
        let answer = removed.0.call("tools/call", &json!({ "name": "echo", "arguments": {} }));
        assert!(answer["error"].is_object(), "{answer}");
        house.client(&["added"]).end();
        clients.into_iter().for_each(Client::end);
        house.down();
    }

    fn a_file_that_changes_is_read(stage) {
        let house = House::with(stage, &["a"], &json!({}));
        let mut gateway = house.serve(&[]);
        house.configure(&[("a", house.stub("a", &[], &json!({}))), ("b", house.stub("b", &[], &json!({})))]);
        wait_until("it was read", PATIENCE, || gateway.stderr().contains("1 kept, 0 changed, 0 removed, 1 added"));
        house.client(&["b"]).end();
        house.down_with(&mut gateway);
    }

    fn a_broken_file_changes_nothing(stage) {
        let house = House::with(stage, &["a"], &json!({ "share": "all" }));
        let mut gateway = house.serve(&[]);
        let mut client = house.client(&["a"]);
        client.echo();
        house.write("{ \"mcpServers\": { \"a\": { \"comand\": \"x\" } } }");
        wait_until("it says so", PATIENCE, || gateway.stderr().contains("the configuration in force stays"));
        let answer = house.try_ostler(&["reload"]);
        assert_eq!(answer.status.code(), Some(1));
        let said = String::from_utf8_lossy(&answer.stderr).into_owned();
        assert!(said.contains("the configuration in force stays") && said.contains(":1:"), "{said}");
        client.echo();
        assert_eq!(house.starts("a").len(), 1);
        client.end();
        house.down_with(&mut gateway);
    }

    fn a_variable_that_is_not_set_is_the_problem_of_its_server_alone(stage) {
        let house = House::new(stage);
        let needy = house.stub("needy", &[], &json!({ "env": { "T": "${MY_TOKEN}" } }));
        house.configure(&[("a", house.stub("a", &[], &json!({}))), ("needy", needy)]);
        let mut client = house.client(&[]);
        let tools = client.0.call("tools/list", &json!({}))["result"].clone();
        assert_eq!(tools["tools"].as_array().unwrap().len(), 1);
        assert_eq!(tools["_meta"]["ostler/unavailable"]["needy"], "needy: MY_TOKEN is not set");
        assert!(house.ostler(&["ps"]).contains("needy: not available: MY_TOKEN is not set"));
        client.tool("a__echo", &json!({}));
        client.end();
        house.down();
    }

    fn a_server_gets_no_variable_that_it_was_not_given(stage) {
        let house = House::new(stage);
        let dump = house.sandbox.file("dump");
        let switches = ["--dump", dump.to_str().unwrap()];
        house.configure(&[("a", house.stub("a", &switches, &json!({ "env": { "OWN": "1" } })))]);
        let mut client = Client::start(house.connect_command(&["a"]).env("PRIVATE", SECRET));
        client.echo();
        let dump = std::fs::read_to_string(&dump).unwrap();
        assert!(dump.contains("OWN") && dump.contains("PATH") && !dump.contains("PRIVATE"), "{dump}");
        client.end();
        house.down();
    }
}

#[test]
fn secrets_are_shown_to_nobody() {
    let house = House::new(Stage::leaf());
    let env = json!({ "env": { "T": "${MY_TOKEN}", "U": SECRET } });
    let crashing = house.stub("crash", &["--exit-after-init"], &env);
    house.configure(&[("a", house.stub("a", &[], &env)), ("crash", crashing)]);
    let mut client = Client::start(house.connect_command(&[]).env("MY_TOKEN", SECRET));
    client.0.call("tools/list", &json!({}));
    client.tool("a__echo", &json!({}));
    let said = |output: Output| [output.stdout, output.stderr].concat();
    let commands: [&[&str]; 8] = [
        &["ps"],
        &["ps", "--json"],
        &["ps", "--tree"],
        &["events"],
        &["events", "--json"],
        &["sessions", "--json"],
        &["reload"],
        &["restart", "crash"],
    ];
    for words in commands {
        let text = said(house.try_ostler(words));
        assert!(!contains(&text), "{words:?} shows it: {}", String::from_utf8_lossy(&text));
    }
    for file in house.sandbox.survivors().files {
        let text = std::fs::read(&file).unwrap_or_default();
        assert!(!contains(&text), "{} holds it", file.display());
    }
    client.end();
    house.down();
}

fn contains(text: &[u8]) -> bool {
    String::from_utf8_lossy(text).contains(SECRET)
}
