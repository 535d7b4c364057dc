//! Cancellation, logging, batches, and unknown methods.

use ostler::keeper::Sharing;
use serde_json::json;

use crate::stage::{Client, Stage};

fn one(stage: &Stage, capabilities: &serde_json::Value) -> (Client, ostler_testkit::Puppet) {
    let mut client = stage.client();
    client.hello(&json!({}));
    let server = stage.server(capabilities);
    client.welcome();
    client.ready();
    (client, server)
}

#[test]
fn c1_a_cancellation_reaches_the_server_under_its_own_id() {
    let stage = Stage::new(Sharing::All);
    let (mut client, mut server) = one(&stage, &json!({}));
    client.request(&json!("x"), "tools/call", &json!({}));
    let request = server.expect("tools/call");
    client
        .say(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"x"}}"#);
    let cancelled = server.expect("notifications/cancelled");
    assert_eq!(cancelled["params"]["requestId"], request["id"]);
    // Too late: the request was cancelled.
    server.answer(&request, &json!({}));
    client.assert_silence();
    // The id is free again.
    client.request(&json!("x"), "tools/call", &json!({}));
    let again = server.expect("tools/call");
    server.answer(&again, &json!("again"));
    assert_eq!(client.message()["result"], "again");
}

#[test]
fn c1_a_cancellation_of_an_unknown_request_is_dropped() {
    let stage = Stage::new(Sharing::All);
    let (mut client, mut server) = one(&stage, &json!({}));
    client.say(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
    client.request(&json!(2), "tools/call", &json!({}));
    let request = server.expect("tools/call");
    server.answer(&request, &json!({}));
    assert_eq!(client.message()["id"], 2);
    // The request was answered already.
    client.say(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}"#);
    client.request(&json!(3), "tools/call", &json!({}));
    server.expect("tools/call");
}

#[test]
fn c2_the_requests_of_a_closed_client_are_cancelled() {
    let stage = Stage::new(Sharing::All);
    let (mut client, mut server) = one(&stage, &json!({}));
    client.request(&json!(1), "tools/call", &json!({}));
    let request = server.expect("tools/call");
    drop(client);
    let cancelled = server.expect("notifications/cancelled");
    assert_eq!(cancelled["params"]["requestId"], request["id"]);
}

#[test]
fn s1_a_ping_is_answered_on_both_sides() {
    let stage = Stage::new(Sharing::All);
    let (mut client, mut server) = one(&stage, &json!({}));
    server.say(r#"{"jsonrpc":"2.0","id":"alive?","method":"ping"}"#);
    assert_eq!(server.message(), json!({ "jsonrpc": "2.0", "id": "alive?", "result": {} }));
    client.assert_silence();
}

#[test]
fn s7_unknown_requests_are_forwarded_and_unknown_notifications_only_to_their_only_client() {
    let stage = Stage::new(Sharing::Session);
    let (mut client, mut server) = one(&stage, &json!({}));
    client.request(&json!(1), "vendor/thing", &json!({ "a": 1 }));
    let request = server.expect("vendor/thing");
    server.answer(&request, &json!({}));
    client.message();
    client.say(r#"{"jsonrpc":"2.0","method":"notifications/vendor","params":{"b":2}}"#);
    assert_eq!(server.expect("notifications/vendor")["params"], json!({ "b": 2 }));
    server.say(r#"{"jsonrpc":"2.0","method":"notifications/vendor/back"}"#);
    client.expect("notifications/vendor/back");
}

#[test]
fn g1_g2_log_messages_respect_the_level_and_stay_with_their_client() {
    let stage = Stage::new(Sharing::All);
    let (mut one, mut server) = one(&stage, &json!({ "logging": {} }));
    let log = |level: &str, text: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"level":"{level}","data":"{text}"}}}}"#
        )
    };
    one.request(&json!(1), "tools/call", &json!({}));
    // Without a level the client gets everything.
    let mut request = server.message();
    if request["method"] == "logging/setLevel" {
        request = server.message();
    }
    one.request(&json!(2), "logging/setLevel", &json!({ "level": "warning" }));
    assert_eq!(one.message()["id"], 2);
    assert_eq!(server.expect("logging/setLevel")["params"]["level"], "warning");
    server.say(&log("info", "too little"));
    server.say(&log("error", "mine"));
    assert_eq!(one.expect("notifications/message")["params"]["data"], "mine");

    let mut other = stage.client();
    other.enter();
    other.request(&json!(1), "tools/call", &json!({}));
    let theirs = loop {
        let message = server.message();
        if message["method"] == "tools/call" {
            break message;
        }
        assert_eq!(message["params"]["level"], "debug", "the other one wants everything");
    };
    // Both clients have a call, so the message could belong to either.
    server.say(&log("error", "whose?"));
    server.answer(&request, &json!({}));
    assert_eq!(one.message()["id"], 1);
    server.say(&log("error", "the other one's"));
    server.answer(&theirs, &json!({}));
    assert_eq!(other.expect("notifications/message")["params"]["data"], "the other one's");
    assert_eq!(other.message()["id"], 1);
    one.assert_silence();
}

#[test]
fn b1_a_batch_gets_one_response_in_the_version_that_has_batches() {
    let stage = Stage::new(Sharing::All);
    let mut client = stage.client();
    let info = json!({ "name": "test", "version": "1" });
    let hello = json!({ "protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": info });
    client.request(&json!(0), "initialize", &hello);
    let mut server = stage.server(&json!({}));
    assert_eq!(client.welcome()["protocolVersion"], "2025-03-26");
    let call =
        |id: u32| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{}}}}"#);
    let note = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    client.say(&format!("[{},{note},{}]", call(1), call(2)));
    let (first, second) = (server.expect("tools/call"), server.expect("tools/call"));
    server.answer(&second, &json!("b"));
    server.answer(&first, &json!("a"));
    let answers = client.message();
    assert_eq!(answers.as_array().map(Vec::len), Some(2), "{answers}");
    client.say(&format!("[{note}]"));
    client.assert_silence();
}

#[test]
fn b1_other_versions_refuse_batches() {
    let stage = Stage::new(Sharing::All);
    let (mut client, _server) = one(&stage, &json!({}));
    client.say(r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#);
    assert_eq!(client.message()["error"]["code"], -32600);
}
