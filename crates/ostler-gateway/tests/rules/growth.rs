//! Work grows linearly with the input of a peer.

use ostler::keeper::Sharing;
use ostler_gateway::Route;
use ostler_testkit::assert_linear;
use serde_json::{Value, json};

use crate::stage::{Client, Stage};

/// A client that may send batches and waits for a server that never answers its handshake.
fn waiting(stage: &Stage, route: Route) -> Client {
    let mut client = stage.connect(None, route);
    let info = json!({ "name": "test", "version": "1" });
    let hello = json!({ "protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": info });
    client.request(&json!("hello"), "initialize", &hello);
    client
}

fn one() -> Route {
    Route::One("puppet".into())
}

/// Reads until the answer with this id.
fn wait_for(client: &Client, id: &Value) {
    while client.message()["id"] != *id {}
}

/// Waits until all earlier messages were processed.
fn wait_heard(client: &mut Client) {
    client.request(&json!("heard?"), "ping", &json!({}));
    wait_for(client, &json!("heard?"));
}

#[test]
fn requests_that_wait_for_a_server() {
    let stage = Stage::new(Sharing::All);
    assert_linear(4000, |size| {
        let mut client = waiting(&stage, one());
        for id in 0..size {
            client.request(&json!(id), "tools/call", &json!({}));
        }
        wait_heard(&mut client);
    });
}

#[test]
fn cancels_of_requests_that_wait_for_a_server() {
    let stage = Stage::new(Sharing::All);
    assert_linear(2000, |size| {
        let mut client = waiting(&stage, one());
        for id in 0..size {
            client.request(&json!(id), "tools/call", &json!({}));
        }
        for id in 0..size {
            client.say(&format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#
            ));
        }
        wait_heard(&mut client);
    });
}

#[test]
fn requests_that_wait_for_the_list_of_a_server() {
    let stage = Stage::new(Sharing::All);
    assert_linear(400, |size| {
        let mut client = waiting(&stage, Route::All);
        for id in 0..size {
            client.request(&json!(id), "tools/call", &json!({ "name": "puppet__t" }));
        }
        wait_heard(&mut client);
    });
}

#[test]
fn batches_that_are_not_answered_yet() {
    let stage = Stage::new(Sharing::All);
    assert_linear(3000, |size| {
        let mut client = waiting(&stage, one());
        for id in 0..size {
            client.say(&format!(r#"[{{"jsonrpc":"2.0","id":{id},"method":"tools/call"}}]"#));
        }
        for id in 0..size {
            client.say(&format!(r#"{{"jsonrpc":"2.0","id":"p{id}","method":"ping"}}"#));
        }
        wait_heard(&mut client);
    });
}

#[test]
fn notifications_of_a_server_with_many_calls_in_flight() {
    assert_linear(1500, |size| {
        let stage = Stage::new(Sharing::Session);
        let mut client = stage.client();
        client.hello(&json!({}));
        let mut server = stage.server(&json!({}));
        client.welcome();
        for id in 1..=size {
            client.request(&json!(id), "tools/call", &json!({}));
        }
        for _ in 0..size {
            server.line();
        }
        let log =
            r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error"}}"#;
        for _ in 0..size {
            server.say(log);
        }
        for _ in 0..size {
            client.expect("notifications/message");
        }
    });
}

#[test]
fn deeply_nested_messages() {
    let stage = Stage::new(Sharing::All);
    let mut client = stage.client();
    client.hello(&json!({}));
    let mut server = stage.server(&json!({}));
    client.welcome();
    let deep = [&"[".repeat(1 << 20), "]".repeat(1 << 20).as_str()].concat();
    let params = format!(r#"{{"name":"t","arguments":{deep},"_meta":{{"x":{deep}}}}}"#);
    client.say(&format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params},"x":{deep}}}"#
    ));
    let line = server.line();
    assert!(line.contains(&params));
    let id = line.split([':', ',']).nth(3).unwrap_or_default().to_owned();
    server.say(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{deep}}}"#));
    assert_eq!(client.line(), format!(r#"{{"jsonrpc":"2.0","id":1,"result":{deep}}}"#));
}

#[test]
fn b1_a_batch_over_the_limit_is_refused() {
    let stage = Stage::new(Sharing::All);
    let mut client = waiting(&stage, one());
    let notes = |count| vec![r#"{"method":"notifications/x"}"#; count].join(",");
    // The gateway stops parsing at the limit.
    client.say(&format!("[{},nonsense]", notes(257)));
    let refused = client.message();
    assert_eq!(refused["error"]["code"], -32600, "{refused}");
    let text = refused["error"]["message"].as_str().unwrap_or_default();
    assert!(text.contains("256"), "{refused}");
    client.say(&format!("[{}]", notes(256)));
    client.assert_silence();
    let ping = |id| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
    for (batch, code) in [
        ("[]".to_owned(), -32600),
        ("[1]".to_owned(), -32600),
        ("[nonsense]".to_owned(), -32700),
        (format!("[{},{}]", ping(1), ping(1)), -32600),
        (format!(r#"[{{"jsonrpc":"2.0","id":1,"method":"initialize"}},{}]"#, ping(2)), -32600),
    ] {
        client.say(&batch);
        let refused = client.message();
        assert_eq!(refused["error"]["code"], code, "{batch}: {refused}");
    }
    client.assert_silence();
}
