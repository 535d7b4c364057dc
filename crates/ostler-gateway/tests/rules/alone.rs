//! `share: call`: each call has an instance of its own.

use ostler::keeper::Sharing;
use ostler_testkit::Puppet;
use serde_json::{Value, json};

use crate::stage::{Client, Stage};

/// A client of a server with cached tools and no running instance.
fn enter(stage: &Stage) -> Client {
    let mut client = stage.client();
    client.hello(&json!({}));
    let mut server = stage.server(&json!({ "tools": {}, "resources": { "subscribe": true } }));
    for _ in 0..3 {
        let request = server.message();
        server.answer(&request, &list(&request));
    }
    let welcome = client.welcome();
    assert_eq!(welcome["capabilities"], json!({ "tools": {}, "resources": {} }));
    client.ready();
    assert!(server.has_ended());
    client
}

fn list(request: &Value) -> Value {
    match request["method"].as_str().expect("a request") {
        "tools/list" => json!({ "tools": [{ "name": "t" }] }),
        "resources/list" => json!({ "resources": [] }),
        "resources/templates/list" => json!({ "resourceTemplates": [] }),
        other => panic!("{other}"),
    }
}

fn next(stage: &Stage) -> Puppet {
    stage.server(&json!({ "tools": {} }))
}

#[test]
fn each_call_has_a_fresh_instance_which_ends_with_its_answer() {
    let stage = Stage::new(Sharing::Call);
    let mut client = enter(&stage);
    for id in 1..4 {
        client.request(&json!(id), "tools/call", &json!({ "name": "t" }));
        let mut server = next(&stage);
        let request = server.expect("tools/call");
        server.answer(&request, &json!({ "n": id }));
        assert_eq!(client.message(), json!({ "jsonrpc": "2.0", "id": id, "result": { "n": id } }));
        assert!(server.has_ended());
    }
    client.request(&json!(9), "tools/list", &json!({}));
    assert_eq!(client.message()["result"]["tools"][0]["name"], "t");
    stage.assert_nothing_started();
}

#[test]
fn concurrent_calls_never_share_an_instance() {
    let stage = Stage::new(Sharing::Call);
    let mut client = enter(&stage);
    client.request(&json!(1), "tools/call", &json!({ "name": "t" }));
    let mut one = next(&stage);
    let first = one.expect("tools/call");
    client.request(&json!(2), "tools/call", &json!({ "name": "t" }));
    let mut other = next(&stage);
    let second = other.expect("tools/call");
    other.answer(&second, &json!({}));
    assert_eq!(client.message()["id"], 2);
    one.answer(&first, &json!({}));
    assert_eq!(client.message()["id"], 1);
}

#[test]
fn a_call_that_is_cancelled_while_its_instance_starts_is_never_sent() {
    let stage = Stage::new(Sharing::Call);
    let mut client = enter(&stage);
    client.request(&json!(1), "tools/call", &json!({ "name": "t" }));
    let mut server = stage.puppet();
    server.expect("initialize");
    client.say(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
    client.assert_silence();
    assert!(server.has_ended());
    // The id is free again.
    client.request(&json!(1), "tools/call", &json!({ "name": "t" }));
    let mut server = next(&stage);
    let request = server.expect("tools/call");
    server.answer(&request, &json!({}));
    assert_eq!(client.message()["id"], 1);
}

#[test]
fn k3_a_server_with_an_instance_per_call_refuses_subscriptions() {
    let stage = Stage::new(Sharing::Call);
    let mut client = enter(&stage);
    client.request(&json!(1), "resources/subscribe", &json!({ "uri": "a:1" }));
    assert_eq!(client.message()["error"]["code"], -32601);
    stage.assert_nothing_started();
}
