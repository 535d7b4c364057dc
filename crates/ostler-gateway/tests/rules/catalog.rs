//! Cached lists, and notifications when they change.

use std::time::Duration;

use ostler::keeper::Sharing;
use ostler_gateway::Tools;
use ostler_testkit::{Puppet, wait_until};
use serde_json::{Value, json};

use crate::stage::{Client, Stage};

const PATIENCE: Duration = Duration::from_secs(30);

fn tools(names: &[&str]) -> Value {
    json!({ "tools": names.iter().map(|name| json!({ "name": name })).collect::<Vec<_>>() })
}

/// A server with these tools, a client that has entered, and the list in the catalog.
fn listed(stage: &Stage, names: &[&str]) -> (Client, Puppet) {
    let mut client = stage.client();
    client.hello(&json!({}));
    let mut server = stage.server(&json!({ "tools": { "listChanged": true } }));
    client.welcome();
    client.ready();
    let list = server.expect("tools/list");
    server.answer(&list, &tools(names));
    stage.wait_listed("tools/list");
    (client, server)
}

fn names(list: &Value) -> Vec<String> {
    let all = list["result"]["tools"].as_array().cloned().unwrap_or_default();
    all.iter().map(|tool| tool["name"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn cached_lists_need_no_start_and_no_lease() {
    let stage = Stage::with(&["puppet"], |server| {
        server.sharing = Sharing::All;
        server.limits.idle = Some(Duration::from_millis(500));
    });
    let (client, _server) = listed(&stage, &["a", "b"]);
    drop(client);
    wait_until("it was idle", PATIENCE, || stage.router.keeper().books().live == 0);
    for _ in 0..20 {
        let mut probe = stage.client();
        assert_eq!(probe.enter()["serverInfo"]["name"], "puppet");
        probe.request(&json!(1), "tools/list", &json!({}));
        assert_eq!(names(&probe.message()), ["a", "b"]);
    }
    assert_eq!(stage.router.keeper().books().started, 1);
    assert!(stage.router.keeper().snapshot().instances.is_empty());
    stage.assert_nothing_started();
}

#[test]
fn l1_l2_clients_are_notified_of_a_list_only_if_it_has_changed() {
    let stage = Stage::new(Sharing::All);
    let (mut client, mut server) = listed(&stage, &["a"]);
    let changed = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
    for _ in 0..50 {
        server.say(changed);
    }
    let list = server.expect("tools/list");
    server.answer(&list, &tools(&["a"]));
    server.say(changed);
    let list = server.expect("tools/list");
    client.assert_silence();
    server.answer(&list, &tools(&["a", "new"]));
    client.expect("notifications/tools/list_changed");
    client.request(&json!(1), "tools/list", &json!({}));
    assert_eq!(names(&client.message()), ["a", "new"]);
    client.assert_silence();
}

#[test]
fn a1_a_request_with_a_cursor_goes_to_the_server() {
    let stage = Stage::new(Sharing::All);
    let (mut client, mut server) = listed(&stage, &["a"]);
    client.request(&json!(1), "tools/list", &json!({ "cursor": "" }));
    let list = server.expect("tools/list");
    assert_eq!(list["params"]["cursor"], "");
    server.answer(&list, &tools(&["z"]));
    assert_eq!(names(&client.message()), ["z"]);
}

#[test]
fn denied_tools_are_neither_listed_nor_called() {
    let allow = Tools { allow: None, deny: ["secret"].into_iter().collect() };
    let stage = Stage::offering(&["puppet"], |server| server.sharing = Sharing::All, &allow);
    let (mut client, mut server) = listed(&stage, &["open", "secret"]);
    client.request(&json!(1), "tools/list", &json!({}));
    assert_eq!(names(&client.message()), ["open"]);
    // The same applies to responses of the server itself.
    client.request(&json!(2), "tools/list", &json!({ "cursor": "x" }));
    let list = server.expect("tools/list");
    server.answer(&list, &tools(&["open", "secret"]));
    assert_eq!(names(&client.message()), ["open"]);
    client.request(&json!(3), "tools/call", &json!({ "name": "secret" }));
    assert_eq!(client.message()["error"]["code"], -32602);
    client.request(&json!(4), "tools/call", &json!({ "name": "open" }));
    assert_eq!(server.expect("tools/call")["params"]["name"], "open");
}
