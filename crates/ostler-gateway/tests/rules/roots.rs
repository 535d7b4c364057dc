//! Roots: which instance gets the roots of which client.

use std::time::Duration;

use ostler::keeper::Sharing;
use ostler_gateway::Route;
use ostler_testkit::Puppet;
use serde_json::{Value, json};

use crate::stage::{Client, Stage};

const CHANGED: &str = r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#;

fn roots(directory: &str) -> Value {
    json!({ "roots": [{ "uri": format!("file://{directory}"), "name": directory }] })
}

/// A client of the agent `a` that has roots; its handshake is under way.
fn hello(stage: &Stage) -> Client {
    let mut client = stage.connect(Some("a"), Route::One("puppet".into()));
    client.hello(&json!({ "roots": { "listChanged": true } }));
    client
}

/// Responds to `roots/list` with this directory.
fn tell(client: &mut Client, directory: &str) {
    let asked = client.expect("roots/list");
    reply(client, &asked, &roots(directory));
}

fn reply(client: &mut Client, asked: &Value, result: &Value) {
    let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result });
    client.say(&answer.to_string());
}

/// A client whose server has been seen before, with this directory as its roots.
fn enter(stage: &Stage, directory: &str) -> Client {
    let mut client = hello(stage);
    client.welcome();
    client.ready();
    tell(&mut client, directory);
    client
}

/// The first client of all, and the instance that its handshake has started.
fn first(stage: &Stage, directory: &str) -> (Client, Puppet) {
    let mut client = hello(stage);
    let server = stage.server(&json!({}));
    client.welcome();
    client.ready();
    tell(&mut client, directory);
    (client, server)
}

/// Expects that the client's next call reaches this server, which answers it.
fn call(client: &mut Client, server: &mut Puppet, id: &str) {
    client.request(&json!(id), "tools/call", &json!({ "name": id }));
    let call = server.expect("tools/call");
    assert_eq!(call["params"]["name"], id);
    server.answer(&call, &json!({}));
    assert_eq!(client.message()["id"], id);
}

/// The response to the server's `roots/list`.
fn ask(server: &mut Puppet, id: &str) -> Value {
    server.say(&json!({ "jsonrpc": "2.0", "id": id, "method": "roots/list" }).to_string());
    let answer = server.message();
    assert_eq!(answer["id"], id, "{answer}");
    answer
}

#[test]
fn clients_share_an_instance_only_if_they_have_the_same_roots() {
    let stage = Stage::new(Sharing::Agent);
    let (mut one, mut in_a) = first(&stage, "/a");
    // The instance that the handshake started is used.
    call(&mut one, &mut in_a, "one");
    let mut other = enter(&stage, "/b");
    other.request(&json!(1), "tools/call", &json!({}));
    let mut in_b = stage.server(&json!({}));
    let theirs = in_b.expect("tools/call");
    in_b.answer(&theirs, &json!({}));
    assert_eq!(other.message()["id"], 1);
    let mut like_the_first = enter(&stage, "/a");
    call(&mut like_the_first, &mut in_a, "three");
    stage.assert_nothing_started();
    // Each server gets the roots of its clients, and no client is asked again.
    assert_eq!(ask(&mut in_a, "q")["result"], roots("/a"));
    assert_eq!(ask(&mut in_b, "q")["result"], roots("/b"));
    for client in [&mut one, &mut other, &mut like_the_first] {
        client.assert_silence();
    }
}

#[test]
fn a_server_that_asks_before_the_roots_are_known_is_answered_when_they_are() {
    let stage = Stage::new(Sharing::Agent);
    let mut client = hello(&stage);
    let mut server = stage.server(&json!({}));
    server.say(r#"{"jsonrpc":"2.0","id":"early","method":"roots/list"}"#);
    server.say(r#"{"jsonrpc":"2.0","id":"taken back","method":"roots/list"}"#);
    server.say(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"taken back"}}"#);
    // The gateway has read the cancellation when it answers the ping.
    server.say(r#"{"jsonrpc":"2.0","id":"heard?","method":"ping"}"#);
    assert_eq!(server.message()["id"], "heard?");
    client.welcome();
    client.ready();
    tell(&mut client, "/a");
    client.request(&json!(1), "tools/call", &json!({}));
    let answer = server.message();
    assert_eq!((&answer["id"], &answer["result"]), (&json!("early"), &roots("/a")));
    server.expect("tools/call");
}

#[test]
fn a_client_that_does_not_tell_its_roots_has_an_instance_of_its_own() {
    let stage = Stage::hurried(Sharing::Agent, Duration::from_millis(200));
    let mut client = hello(&stage);
    let _listed = stage.server(&json!({}));
    client.welcome();
    client.ready();
    client.expect("roots/list");
    client.request(&json!(1), "tools/call", &json!({}));
    let mut own = stage.puppet();
    let told = own.greet(&json!({}));
    assert_eq!(told["params"]["clientInfo"]["name"], "test", "it knows its only client");
    own.expect("tools/call");
    // The server asks the client directly.
    own.say(r#"{"jsonrpc":"2.0","id":"q","method":"roots/list"}"#);
    let asked = client.expect("roots/list");
    reply(&mut client, &asked, &roots("/late"));
    assert_eq!(own.message()["result"], roots("/late"));
    // No other session shares it, not even one that does not tell its roots either.
    let mut other = hello(&stage);
    other.welcome();
    other.ready();
    other.expect("roots/list");
    other.request(&json!(1), "tools/call", &json!({}));
    let mut theirs = stage.server(&json!({}));
    theirs.expect("tools/call");
    // It ends with its session.
    drop(client);
    own.expect("notifications/cancelled");
    assert!(own.has_ended());
    other.assert_silence();
}

#[test]
fn a_response_without_roots_is_ignored() {
    for result in [
        json!({ "jsonrpc": "2.0", "error": { "code": -32603, "message": "no" } }),
        json!({ "jsonrpc": "2.0", "result": { "roots": "file:///a" } }),
        json!({ "jsonrpc": "2.0", "result": { "roots": [{ "name": "a" }] } }),
        json!({ "jsonrpc": "2.0", "result": {} }),
    ] {
        let stage = Stage::new(Sharing::Agent);
        let mut client = hello(&stage);
        let _listed = stage.server(&json!({}));
        client.welcome();
        client.ready();
        let asked = client.expect("roots/list");
        let mut answer = result.clone();
        answer["id"] = asked["id"].clone();
        client.say(&answer.to_string());
        client.request(&json!(1), "tools/call", &json!({}));
        let mut own = stage.puppet();
        let told = own.greet(&json!({}));
        assert_eq!(told["params"]["clientInfo"]["name"], "test", "{result}");
        own.expect("tools/call");
    }
}

#[test]
fn other_roots_are_the_key_of_the_next_lease_and_disturb_no_call() {
    let stage = Stage::new(Sharing::Agent);
    let (mut client, mut in_a) = first(&stage, "/a");
    client.request(&json!("under way"), "tools/call", &json!({}));
    let under_way = in_a.expect("tools/call");
    client.say(CHANGED);
    tell(&mut client, "/b");
    client.request(&json!("next"), "tools/call", &json!({}));
    let mut in_b = stage.server(&json!({}));
    let next = in_b.expect("tools/call");
    // The instance of the old directory does not get the new one.
    assert_eq!(ask(&mut in_a, "q")["result"], roots("/a"));
    assert_eq!(ask(&mut in_b, "q")["result"], roots("/b"));
    in_a.answer(&under_way, &json!({ "in": "a" }));
    assert_eq!(client.message()["result"], json!({ "in": "a" }));
    in_b.answer(&next, &json!({ "in": "b" }));
    assert_eq!(client.message()["result"], json!({ "in": "b" }));
    // With the old roots, the first instance is used again.
    client.say(CHANGED);
    tell(&mut client, "/a");
    call(&mut client, &mut in_a, "back");
    stage.assert_nothing_started();
}

#[test]
fn roots_that_are_the_same_again_change_nothing() {
    let stage = Stage::new(Sharing::Agent);
    let (mut client, mut server) = first(&stage, "/a");
    call(&mut client, &mut server, "before");
    client.say(CHANGED);
    tell(&mut client, "/a");
    call(&mut client, &mut server, "after");
    stage.assert_nothing_started();
}

#[test]
fn a_subscription_moves_with_the_roots() {
    let stage = Stage::new(Sharing::Agent);
    let mut client = hello(&stage);
    let able = json!({ "resources": { "subscribe": true } });
    let mut in_a = stage.server(&able);
    for _ in 0..2 {
        let list = in_a.message();
        let field =
            if list["method"] == "resources/list" { "resources" } else { "resourceTemplates" };
        in_a.answer(&list, &json!({ field: [] }));
    }
    client.welcome();
    client.ready();
    tell(&mut client, "/a");
    client.request(&json!(1), "resources/subscribe", &json!({ "uri": "x:1" }));
    let subscribed = in_a.expect("resources/subscribe");
    in_a.answer(&subscribed, &json!({}));
    assert_eq!(client.message()["id"], 1);
    client.say(CHANGED);
    tell(&mut client, "/b");
    assert_eq!(in_a.expect("resources/unsubscribe")["params"]["uri"], "x:1");
    let mut in_b = stage.server(&able);
    let mut heard: Vec<Value> = (0..3).map(|_| in_b.message()).collect();
    heard.retain(|message| message["method"] == "resources/subscribe");
    assert_eq!(heard.len(), 1, "{heard:?}");
    in_b.say(
        r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x:1"}}"#,
    );
    client.expect("notifications/resources/updated");
}

#[test]
fn a_server_shared_by_all_gets_no_roots() {
    let stage = Stage::new(Sharing::All);
    let mut one = hello(&stage);
    let mut server = stage.puppet();
    let told = server.greet(&json!({}));
    assert_eq!(told["params"]["capabilities"], json!({}));
    one.welcome();
    one.ready();
    call(&mut one, &mut server, "one");
    let mut other = hello(&stage);
    other.welcome();
    other.ready();
    call(&mut other, &mut server, "other");
    one.request(&json!("busy"), "tools/call", &json!({}));
    server.expect("tools/call");
    assert_eq!(ask(&mut server, "q")["error"]["code"], -32601);
    one.assert_silence();
    other.assert_silence();
    stage.assert_nothing_started();
}

#[test]
fn a_client_without_the_roots_capability_is_not_asked() {
    let stage = Stage::new(Sharing::Agent);
    let mut client = stage.connect(Some("a"), Route::One("puppet".into()));
    client.hello(&json!({ "sampling": {} }));
    let mut server = stage.server(&json!({}));
    client.welcome();
    client.ready();
    call(&mut client, &mut server, "any");
    client.say(CHANGED);
    client.assert_silence();
}

#[test]
fn a_client_of_all_servers_is_asked_once() {
    let stage = Stage::with(&["one", "two"], |server| server.sharing = Sharing::Agent);
    let mut client = stage.connect(Some("a"), Route::All);
    client.hello(&json!({ "roots": {} }));
    client.welcome();
    client.ready();
    tell(&mut client, "/a");
    for name in ["one", "two"] {
        let call = json!({ "name": format!("{name}__t"), "arguments": {} });
        client.request(&json!(name), "tools/call", &call);
        let mut server = stage.puppets[name].next();
        server.greet(&json!({ "tools": {} }));
        let list = server.expect("tools/list");
        server.answer(&list, &json!({ "tools": [{ "name": "t" }] }));
        let call = server.expect("tools/call");
        assert_eq!(ask(&mut server, "q")["result"], roots("/a"));
        server.answer(&call, &json!({}));
        assert_eq!(client.message()["id"], name);
    }
}
