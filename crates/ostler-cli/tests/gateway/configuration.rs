//! Settings of the configuration, and reloads.

use std::process::Output;

use ostler_testkit::{Launched, Stage, is_alive, rows, wait_until};
use serde_json::{Value, json};

use crate::test_gateway::{Client, PATIENCE, TestGateway};

const SECRET: &str = "s3cr3t-do-not-show";

rows! {
    fn l41_a_disabled_server_is_never_started(stage) {
        let test_gateway = TestGateway::new(stage);
        let (on, off) = (json!({ "share": "all" }), json!({ "enabled": false }));
        let servers = |b: &Value| [("a", test_gateway.stub("a", &[], &on)), ("b", test_gateway.stub("b", &[], b))];
        test_gateway.configure(&servers(&off));
        let mut client = test_gateway.client(&[]);
        let tools = client.0.call("tools/list", &json!({})).to_string();
        assert!(tools.contains("a__echo") && !tools.contains("b__"), "{tools}");
        let mut refused = Launched::start(&mut test_gateway.connect_command(&["b"]));
        assert_eq!(test_gateway.wait_exit(&mut refused).code(), Some(1));
        assert!(refused.stderr().contains("enabled: false"), "{}", refused.stderr());
        assert_eq!(test_gateway.starts("b").len(), 0);
        // Enabled, used, and disabled again.
        test_gateway.configure(&servers(&on));
        test_gateway.ostler(&["reload"]);
        let mut user = test_gateway.client(&["b"]);
        user.echo();
        let live = test_gateway.starts("b")[0];
        test_gateway.configure(&servers(&off));
        test_gateway.ostler(&["reload"]);
        wait_until("it is gone", PATIENCE, || !is_alive(live));
        assert_eq!(test_gateway.starts("b").len(), 1);
        client.end();
        user.end();
        test_gateway.down();
    }

    fn a_reload_changes_only_the_servers_that_differ(stage) {
        let test_gateway = TestGateway::with(stage, &["kept", "changed", "removed"], &json!({ "share": "all" }));
        let mut clients = ["kept", "changed", "removed"].map(|name| test_gateway.client(&[name]));
        clients.iter_mut().for_each(Client::echo);
        let before = ["kept", "changed", "removed"].map(|name| test_gateway.starts(name)[0]);
        let more = json!({ "share": "all" });
        test_gateway.configure(&[
            ("kept", test_gateway.stub("kept", &[], &more)),
            ("changed", test_gateway.stub("changed", &["--stderr-bytes", "1"], &more)),
            ("added", test_gateway.stub("added", &[], &more)),
        ]);
        let said = test_gateway.ostler_json(&["reload", "--json"]);
        // The watcher may have been first.
        assert!(said["kept"].as_array().unwrap().contains(&json!("kept")), "{said}");
        wait_until("the others are gone", PATIENCE, || !is_alive(before[1]) && !is_alive(before[2]));
        let [kept, changed, removed] = &mut clients;
        kept.echo();
        assert_eq!(test_gateway.starts("kept"), [before[0]]);
        assert_eq!(test_gateway.starts("changed").len(), 1, "it was started without a call");
        changed.echo();
        assert_eq!(test_gateway.starts("changed").len(), 2);
        let answer = removed.0.call("tools/call", &json!({ "name": "echo", "arguments": {} }));
        assert!(answer["error"].is_object(), "{answer}");
        test_gateway.client(&["added"]).end();
        clients.into_iter().for_each(Client::end);
        test_gateway.down();
    }

    fn a_changed_file_is_reloaded(stage) {
        let test_gateway = TestGateway::with(stage, &["a"], &json!({}));
        let mut gateway = test_gateway.serve(&[]);
        test_gateway.configure(&[("a", test_gateway.stub("a", &[], &json!({}))), ("b", test_gateway.stub("b", &[], &json!({})))]);
        wait_until("it was read", PATIENCE, || gateway.stderr().contains("1 kept, 0 changed, 0 removed, 1 added"));
        test_gateway.client(&["b"]).end();
        test_gateway.down_with(&mut gateway);
    }

    fn a_broken_file_changes_nothing(stage) {
        let test_gateway = TestGateway::with(stage, &["a"], &json!({ "share": "all" }));
        let mut gateway = test_gateway.serve(&[]);
        let mut client = test_gateway.client(&["a"]);
        client.echo();
        test_gateway.write("{ \"mcpServers\": { \"a\": { \"comand\": \"x\" } } }");
        wait_until("it says so", PATIENCE, || gateway.stderr().contains("kept the current configuration"));
        let answer = test_gateway.try_ostler(&["reload"]);
        assert_eq!(answer.status.code(), Some(1));
        let said = String::from_utf8_lossy(&answer.stderr).into_owned();
        assert!(said.contains("kept the current configuration") && said.contains(":1:"), "{said}");
        client.echo();
        assert_eq!(test_gateway.starts("a").len(), 1);
        client.end();
        test_gateway.down_with(&mut gateway);
    }

    fn a_variable_that_is_not_set_is_the_problem_of_its_server_alone(stage) {
        let test_gateway = TestGateway::new(stage);
        let needy = test_gateway.stub("needy", &[], &json!({ "env": { "T": "${MY_TOKEN}" } }));
        test_gateway.configure(&[("a", test_gateway.stub("a", &[], &json!({}))), ("needy", needy)]);
        let mut client = test_gateway.client(&[]);
        let tools = client.0.call("tools/list", &json!({}))["result"].clone();
        assert_eq!(tools["tools"].as_array().unwrap().len(), 1);
        let reason = tools["_meta"]["ostler/unavailable"]["needy"].as_str().unwrap();
        assert!(reason.starts_with("needy: MY_TOKEN is not set\n  what to do: "), "{reason}");
        assert!(test_gateway.ostler(&["ps"]).contains("needy: not available: MY_TOKEN is not set"));
        client.tool("a__echo", &json!({}));
        client.end();
        test_gateway.down();
    }

    fn a_server_inherits_only_the_default_variables(stage) {
        let test_gateway = TestGateway::new(stage);
        let dump = test_gateway.sandbox.file("dump");
        let switches = ["--dump", dump.to_str().unwrap()];
        test_gateway.configure(&[("a", test_gateway.stub("a", &switches, &json!({ "env": { "OWN": "1" } })))]);
        let mut client = Client::start(test_gateway.connect_command(&["a"]).env("PRIVATE", SECRET));
        client.echo();
        let dump = std::fs::read_to_string(&dump).unwrap();
        assert!(dump.contains("OWN") && dump.contains("PATH") && !dump.contains("PRIVATE"), "{dump}");
        client.end();
        test_gateway.down();
    }
}

#[test]
fn no_command_shows_a_secret() {
    let test_gateway = TestGateway::new(Stage::leaf());
    let env = json!({ "env": { "T": "${MY_TOKEN}", "U": SECRET } });
    let crashing = test_gateway.stub("crash", &["--exit-after-init"], &env);
    test_gateway.configure(&[("a", test_gateway.stub("a", &[], &env)), ("crash", crashing)]);
    let mut client = Client::start(test_gateway.connect_command(&[]).env("MY_TOKEN", SECRET));
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
        let text = said(test_gateway.try_ostler(words));
        assert!(!contains(&text), "{words:?} shows it: {}", String::from_utf8_lossy(&text));
    }
    for file in test_gateway.sandbox.survivors().files {
        let text = std::fs::read(&file).unwrap_or_default();
        assert!(!contains(&text), "{} holds it", file.display());
    }
    client.end();
    test_gateway.down();
}

fn contains(text: &[u8]) -> bool {
    String::from_utf8_lossy(text).contains(SECRET)
}
