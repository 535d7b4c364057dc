//! The endpoint of all servers.

use ostler::keeper::Sharing;
use serde_json::{Value, json};

use crate::stage::{Client, IMPATIENT, Stage};

fn tools(names: &[&str]) -> Value {
    json!({ "tools": names.iter().map(|name| json!({ "name": name, "v": 1 })).collect::<Vec<_>>() })
}

fn names(list: &Value) -> Vec<String> {
    let all = list["result"]["tools"].as_array().cloned().unwrap_or_default();
    let mut names: Vec<String> =
        all.iter().map(|tool| tool["name"].as_str().unwrap_or_default().to_owned()).collect();
    names.sort();
    names
}

/// Drives a server with these tools until it has listed them.
fn play(stage: &Stage, server: &str, has: &[&str]) -> ostler_testkit::Puppet {
    let mut puppet = stage.puppets[server].next();
    puppet.greet(&json!({ "tools": {} }));
    let list = puppet.expect("tools/list");
    puppet.answer(&list, &tools(has));
    puppet
}

fn enter(stage: &Stage) -> Client {
    let mut client = stage.client_of_all();
    assert_eq!(client.enter()["serverInfo"]["name"], "ostler");
    stage.assert_nothing_started();
    client
}

#[test]
fn a3_tools_of_all_servers_have_names_that_lead_back() {
    let stage = Stage::with(&["files", "git"], |server| server.sharing = Sharing::All);
    let mut client = enter(&stage);
    client.request(&json!(1), "tools/list", &json!({}));
    let mut files = play(&stage, "files", &["read"]);
    let mut git = play(&stage, "git", &["log", "read"]);
    assert_eq!(names(&client.message()), ["files__read", "git__log", "git__read"]);
    client.request(
        &json!(2),
        "tools/call",
        &json!({ "name": "git__read", "arguments": { "x": 1 } }),
    );
    let call = git.expect("tools/call");
    assert_eq!(call["params"], json!({ "name": "read", "arguments": { "x": 1 } }));
    git.answer(&call, &json!("from git"));
    assert_eq!(client.message()["result"], "from git");
    client.request(&json!(3), "tools/call", &json!({ "name": "files__read" }));
    let call = files.expect("tools/call");
    files.answer(&call, &json!("from files"));
    assert_eq!(client.message()["result"], "from files");
    client.request(&json!(4), "tools/call", &json!({ "name": "nothing" }));
    assert_eq!(client.message()["error"]["code"], -32602);
}

#[test]
fn a_server_that_cannot_start_does_not_empty_the_list_of_the_others() {
    let stage = Stage::with(&["broken", "git"], |server| {
        server.sharing = Sharing::All;
        if server.name() == "broken" {
            server.spec_mut().unwrap().program = "no-such-program".into();
        }
    });
    let mut client = enter(&stage);
    client.request(&json!(1), "tools/list", &json!({}));
    let _git = play(&stage, "git", &["log"]);
    let list = client.message();
    assert_eq!(names(&list), ["git__log"]);
    let reason = list["result"]["_meta"]["ostler/unavailable"]["broken"].to_string();
    assert!(reason.contains("command not found"), "{list}");
}

#[test]
fn resources_lead_to_the_server_that_has_them() {
    let stage = Stage::with(&["one", "two"], |server| server.sharing = Sharing::All);
    let mut client = enter(&stage);
    client.request(&json!(1), "resources/list", &json!({}));
    let mut puppets: Vec<_> = ["one", "two"]
        .iter()
        .map(|name| {
            let mut puppet = stage.puppets[*name].next();
            puppet.greet(&json!({ "resources": {} }));
            for _ in 0..2 {
                let list = puppet.message();
                let uri = format!("{name}:thing");
                let result = match list["method"].as_str() {
                    Some("resources/list") => json!({ "resources": [{ "uri": uri, "name": "t" }] }),
                    _ => json!({ "resourceTemplates": [{ "uriTemplate": format!("{name}:x/{{id}}"), "name": "t" }] }),
                };
                puppet.answer(&list, &result);
            }
            puppet
        })
        .collect();
    assert_eq!(client.message()["result"]["resources"].as_array().map(Vec::len), Some(2));
    client.request(&json!(2), "resources/read", &json!({ "uri": "two:thing" }));
    let read = puppets[1].expect("resources/read");
    puppets[1].answer(&read, &json!({ "contents": [] }));
    assert_eq!(client.message()["id"], 2);
    client.request(&json!(3), "resources/read", &json!({ "uri": "one:x/5" }));
    assert_eq!(puppets[0].expect("resources/read")["params"]["uri"], "one:x/5");
    client.request(&json!(4), "resources/read", &json!({ "uri": "elsewhere:1" }));
    assert_eq!(client.message()["error"]["code"], -32602);
}

#[test]
fn a1_a_list_of_all_servers_has_one_page() {
    let stage = Stage::with(&["a"], |_| ());
    let mut client = stage.client_of_all();
    client.enter();
    client.request(&json!(1), "tools/list", &json!({ "cursor": "" }));
    assert_eq!(client.message()["error"]["code"], -32602);
    stage.assert_nothing_started();
}

#[test]
fn a_call_before_any_list_starts_only_its_server() {
    let stage = Stage::with(&["a", "b"], |server| server.sharing = Sharing::All);
    let mut client = stage.client_of_all();
    client.enter();
    client.request(&json!(1), "tools/call", &json!({ "name": "b__t", "arguments": {} }));
    let mut server = stage.puppets["b"].next();
    server.greet(&json!({ "tools": {} }));
    let list = server.expect("tools/list");
    server.answer(&list, &tools(&["t"]));
    let call = server.expect("tools/call");
    assert_eq!(call["params"], json!({ "name": "t", "arguments": {} }));
    server.answer(&call, &json!({}));
    assert_eq!(client.message()["id"], 1);
    client.request(&json!(2), "tools/call", &json!({ "name": "b__other" }));
    assert_eq!(client.message()["error"]["code"], -32602);
    client.request(&json!(3), "tools/call", &json!({ "name": "c__t" }));
    assert_eq!(client.message()["error"]["message"], "nothing is called c__t");
    stage.assert_nothing_started();
}

#[test]
fn a_client_whose_list_lacked_a_slow_server_is_notified_when_it_is_ready() {
    let stage = Stage::with(&["fast", "slow"], |server| server.sharing = Sharing::All);
    let mut client = stage.client_of_all();
    client.enter_as(IMPATIENT);
    client.request(&json!(1), "tools/list", &json!({}));
    let mut fast = stage.puppets["fast"].next();
    fast.greet(&json!({ "tools": {} }));
    let list = fast.expect("tools/list");
    fast.answer(&list, &tools(&["t"]));
    let mut slow = stage.puppets["slow"].next();
    let without = client.message();
    assert_eq!(without["id"], 1);
    assert_eq!(without["result"]["tools"].as_array().map(Vec::len), Some(1));
    assert!(without["result"]["_meta"]["ostler/unavailable"]["slow"].is_string());
    slow.greet(&json!({ "tools": {} }));
    let list = slow.expect("tools/list");
    slow.answer(&list, &tools(&["u"]));
    client.expect("notifications/tools/list_changed");
    client.request(&json!(2), "tools/list", &json!({}));
    assert_eq!(client.message()["result"]["tools"].as_array().map(Vec::len), Some(2));
    client.assert_silence();
}

/// A server may have to be fetched before it starts.
#[test]
fn a_call_waits_longer_for_its_server_than_a_list_of_all() {
    let stage = Stage::with(&["slow"], |server| server.sharing = Sharing::All);
    let mut client = stage.client_of_all();
    client.enter_as(IMPATIENT);
    client.request(&json!(1), "tools/call", &json!({ "name": "slow__t", "arguments": {} }));
    let mut slow = stage.puppets["slow"].next();
    client.request(&json!(2), "tools/list", &json!({}));
    assert_eq!(client.message()["id"], 2, "the list comes without it");
    slow.greet(&json!({ "tools": {} }));
    let list = slow.expect("tools/list");
    slow.answer(&list, &tools(&["t"]));
    client.expect("notifications/tools/list_changed");
    let call = slow.expect("tools/call");
    slow.answer(&call, &json!({}));
    assert_eq!(client.message()["id"], 1);
}
