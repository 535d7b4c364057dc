//! Server requests while several sessions have calls in flight.

use std::num::NonZeroUsize;
use std::time::Duration;

use ostler::keeper::{Caps, Server, Sharing};
use ostler_gateway::{Route, Tools};
use ostler_testkit::Puppet;
use serde_json::{Value, json};

use crate::stage::{Client, Stage};

const SAMPLE: &str =
    r#"{"jsonrpc":"2.0","id":"q","method":"sampling/createMessage","params":{"maxTokens":1}}"#;

/// A server with `share: agent` and this many instances.
fn at_most(instances: usize) -> impl Fn(&mut Server) {
    move |server| {
        server.sharing = Sharing::Agent;
        server.max_instances = NonZeroUsize::new(instances).expect("some");
    }
}

fn enter(stage: &Stage) -> Client {
    let mut client = stage.connect(Some("a"), Route::One("puppet".into()));
    client.hello(&json!({ "sampling": {} }));
    client
}

/// The client calls, and this server gets the call.
fn call(client: &mut Client, server: &mut Puppet, id: &str) -> Value {
    client.request(&json!(id), "tools/call", &json!({ "name": id }));
    hear(server, id)
}

/// Expects that the server's next message is this call.
fn hear(server: &mut Puppet, id: &str) -> Value {
    let call = server.expect("tools/call");
    assert_eq!(call["params"]["name"], id, "{call}");
    call
}

fn finish(client: &Client, server: &mut Puppet, call: &Value) {
    server.answer(call, &json!({}));
    assert_eq!(client.message()["id"], call["params"]["name"]);
}

/// Expects that the server's request reaches this client, and the response the server.
fn assert_asked(server: &mut Puppet, client: &mut Client) {
    server.say(SAMPLE);
    let asked = client.expect("sampling/createMessage");
    client.say(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "x": 1 } }).to_string());
    assert_eq!(server.message()["result"], json!({ "x": 1 }));
}

/// Two sessions of one agent with a call each, after a server request without an owner.
fn contended(stage: &Stage) -> (Puppet, [(Client, Value); 2]) {
    let mut one = enter(stage);
    let mut server = stage.server(&json!({}));
    one.welcome();
    let mut other = enter(stage);
    other.welcome();
    let calls = [call(&mut one, &mut server, "one"), call(&mut other, &mut server, "other")];
    server.say(SAMPLE);
    let refused = server.message();
    assert_eq!(refused["error"]["code"], -32603, "{refused}");
    assert_eq!(refused["error"]["data"]["gateway"]["reason"], "no_owner", "{refused}");
    let text = refused["error"]["message"].as_str().unwrap_or_default();
    assert!(text.contains("one session at a time"), "{refused}");
    let [first, second] = calls;
    (server, [(one, first), (other, second)])
}

#[test]
fn a_request_without_an_owner_fails_once_and_then_each_calling_session_has_an_instance() {
    let stage = Stage::with(&["puppet"], at_most(2));
    let (mut server, [(mut one, first), (mut other, second)]) = contended(&stage);
    finish(&other, &mut server, &second);
    // The other session still has a call in flight, so this one gets another instance.
    other.request(&json!("elsewhere"), "tools/call", &json!({ "name": "elsewhere" }));
    let mut next = stage.server(&json!({}));
    let elsewhere = hear(&mut next, "elsewhere");
    assert_asked(&mut server, &mut one);
    assert_asked(&mut next, &mut other);
    // A session may have several calls at once.
    let more = call(&mut one, &mut server, "more");
    for call in [&first, &more] {
        finish(&one, &mut server, call);
    }
    finish(&other, &mut next, &elsewhere);
    stage.assert_nothing_started();
}

#[test]
fn sessions_that_call_one_after_the_other_need_one_instance() {
    let stage = Stage::with(&["puppet"], at_most(4));
    let (mut server, [(mut one, first), (mut other, second)]) = contended(&stage);
    finish(&one, &mut server, &first);
    finish(&other, &mut server, &second);
    for _ in 0..2 {
        for client in [&mut one, &mut other] {
            let call = call(client, &mut server, "next");
            assert_asked(&mut server, client);
            finish(client, &mut server, &call);
        }
    }
    stage.assert_nothing_started();
}

#[test]
fn sessions_take_turns_if_there_can_be_no_other_instance() {
    let stage = Stage::with(&["puppet"], at_most(1));
    let (mut server, [(mut one, first), (mut other, second)]) = contended(&stage);
    finish(&other, &mut server, &second);
    other.request(&json!("second"), "tools/call", &json!({ "name": "second" }));
    other.assert_silence();
    // A turn ends when its calls end: this call comes after those of the waiting session.
    one.request(&json!("third"), "tools/call", &json!({ "name": "third" }));
    one.assert_silence();
    assert_asked(&mut server, &mut one);
    finish(&one, &mut server, &first);
    let second = hear(&mut server, "second");
    assert_asked(&mut server, &mut other);
    finish(&other, &mut server, &second);
    let third = hear(&mut server, "third");
    assert_asked(&mut server, &mut one);
    finish(&one, &mut server, &third);
    stage.assert_nothing_started();
}

#[test]
fn a_cancelled_or_closed_waiter_delays_no_other() {
    let stage = Stage::with(&["puppet"], at_most(1));
    let (mut server, [(mut one, first), (mut other, second)]) = contended(&stage);
    finish(&other, &mut server, &second);
    let mut third = enter(&stage);
    third.welcome();
    other.request(&json!("given up"), "tools/call", &json!({ "name": "given up" }));
    other.assert_silence();
    third.request(&json!("left"), "tools/call", &json!({ "name": "left" }));
    third.assert_silence();
    other.request(&json!("waits"), "tools/call", &json!({ "name": "waits" }));
    let cancel = json!({ "requestId": "given up" });
    let method = "notifications/cancelled";
    other.say(&json!({ "jsonrpc": "2.0", "method": method, "params": cancel }).to_string());
    other.assert_silence();
    drop(third);
    // A session that closes during its call ends its turn.
    one.assert_silence();
    drop(one);
    assert_eq!(server.expect("notifications/cancelled")["params"]["requestId"], first["id"]);
    let waits = hear(&mut server, "waits");
    finish(&other, &mut server, &waits);
}

#[test]
fn a_turn_is_waited_for_only_as_long_as_the_queue_allows() {
    let caps = Caps { queue_timeout: Duration::from_millis(300), ..Caps::default() };
    let stage = Stage::limited(&["puppet"], at_most(1), &Tools::default(), caps);
    let (mut server, [(one, first), (mut other, second)]) = contended(&stage);
    finish(&other, &mut server, &second);
    other.request(&json!("late"), "tools/call", &json!({}));
    let refused = other.message();
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!("late"), &json!(-32603)));
    let text = refused["error"]["message"].as_str().unwrap_or_default();
    assert!(text.contains("300ms") && text.contains("one session at a time"), "{text}");
    finish(&one, &mut server, &first);
    let call = call(&mut other, &mut server, "next");
    finish(&other, &mut server, &call);
}

#[test]
fn the_need_for_an_owner_is_remembered_after_a_restart() {
    let stage = Stage::with(&["puppet"], at_most(2));
    let (server, clients) = contended(&stage);
    drop((server, clients));
    let stage = stage.restart(at_most(2));
    let (mut one, mut other) = (enter(&stage), enter(&stage));
    one.welcome();
    other.welcome();
    one.request(&json!("one"), "tools/call", &json!({ "name": "one" }));
    let mut first = stage.server(&json!({}));
    hear(&mut first, "one");
    other.request(&json!("other"), "tools/call", &json!({ "name": "other" }));
    let mut second = stage.server(&json!({}));
    hear(&mut second, "other");
    assert_asked(&mut first, &mut one);
    assert_asked(&mut second, &mut other);
}

#[test]
fn a_server_request_without_a_call_changes_nothing() {
    let stage = Stage::with(&["puppet"], at_most(2));
    let mut one = enter(&stage);
    let mut server = stage.server(&json!({}));
    one.welcome();
    let mut other = enter(&stage);
    other.welcome();
    for client in [&mut one, &mut other] {
        let call = call(client, &mut server, "any");
        finish(client, &mut server, &call);
    }
    server.say(SAMPLE);
    assert_eq!(server.message()["error"]["data"]["gateway"]["reason"], "no_owner");
    // Without a call in flight, turns would not identify an owner either.
    call(&mut one, &mut server, "one");
    call(&mut other, &mut server, "other");
    stage.assert_nothing_started();
}

#[test]
fn a_session_that_subscribes_stays_where_it_is() {
    let stage = Stage::with(&["puppet"], at_most(2));
    let (mut server, [(one, first), (mut other, second)]) = contended(&stage);
    finish(&other, &mut server, &second);
    finish(&one, &mut server, &first);
    other.request(&json!("subscribe"), "resources/subscribe", &json!({ "uri": "x:1" }));
    let subscribe = server.expect("resources/subscribe");
    server.answer(&subscribe, &json!({}));
    assert_eq!(other.message()["id"], "subscribe");
    let mut one = one;
    let first = call(&mut one, &mut server, "first");
    other.request(&json!("waits"), "tools/call", &json!({ "name": "waits" }));
    other.assert_silence();
    finish(&one, &mut server, &first);
    let waits = hear(&mut server, "waits");
    finish(&other, &mut server, &waits);
    stage.assert_nothing_started();
}
