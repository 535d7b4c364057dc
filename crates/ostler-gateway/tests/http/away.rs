//! Clients that detach and return.

use std::process::Command;
use std::time::Duration;

use ostler::keeper::Sharing;
use ostler_testkit::web::{Reply, Web, request};
use ostler_testkit::{Launched, wait_until};
use serde_json::json;

use crate::stage::{PATIENCE, Stage};

fn stage(sharing: Sharing) -> Stage {
    Stage::with(&["puppet"], sharing, |settings| {
        settings.limits.detach = Duration::from_millis(300);
    })
}

fn call(id: u64) -> String {
    request(&json!(id), "tools/call", &json!({}))
}

/// Opens a second session and waits until it is detached, so that at least the detach timeout has passed.
fn wait_for_another_client_to_detach(stage: &Stage) {
    let clients = stage.gateway.router().clients();
    let _ = stage.web().enter();
    wait_until("the other client is detached", PATIENCE, || {
        stage.gateway.router().clients() <= clients
    });
}

#[test]
fn h4_a_detached_client_releases_its_leases_and_its_session_resumes() {
    let stage = stage(Sharing::Session);
    let (web, mut server) = stage.both_in("2025-11-25", &json!({ "elicitation": {} }));
    let stream = web.begin("POST", &call(1));
    server.expect("tools/call");
    // The connection drops in the middle of a call.
    drop(stream);
    assert_eq!(server.expect("notifications/cancelled")["params"]["reason"], "the client has left");
    assert!(server.has_ended());
    wait_until("nothing runs", PATIENCE, || stage.gateway.router().keeper().books().live == 0);
    assert_eq!(stage.gateway.router().clients(), 0);
    let stream = web.begin("POST", &call(1));
    let mut server = stage.puppet();
    let told = server.greet(&json!({}));
    assert_eq!(told["params"]["capabilities"], json!({ "elicitation": {} }));
    assert_eq!(told["params"]["clientInfo"]["name"], "web");
    let asked = server.expect("tools/call");
    server.answer(&asked, &json!({ "back": true }));
    let answer = Reply::read(stream).expect("an answer").message();
    assert_eq!(answer["result"], json!({ "back": true }));
}

#[test]
fn h4_a_client_with_a_stream_or_a_request_is_attached() {
    let stage = stage(Sharing::Session);
    let (web, mut server) = stage.both();
    let listening = web.listen();
    wait_for_another_client_to_detach(&stage);
    assert_eq!(stage.gateway.router().clients(), 1);
    let stream = web.begin("POST", &call(1));
    let asked = server.expect("tools/call");
    listening.cut();
    // Only the call keeps the client attached.
    wait_for_another_client_to_detach(&stage);
    server.answer(&asked, &json!({}));
    assert_eq!(Reply::read(stream).expect("an answer").message()["id"], 1);
    assert!(server.has_ended());
}

/// A client with an event stream whose machine stops acknowledging packets.
fn vanishing(web: &Web) -> Launched {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/http/deaf.py");
    let (host, port) = (web.address.ip().to_string(), web.address.port().to_string());
    let mut command = Command::new("python3");
    let mut client = Launched::start(command.args([script, &host, &port, &web.text("GET", "")]));
    for expected in ["HTTP/1.1 200 OK\n", "deaf\n"] {
        let line = client.line(PATIENCE).expect("a line").unwrap_or_default();
        assert_eq!(String::from_utf8_lossy(&line).trim(), expected.trim(), "{}", client.stderr());
    }
    client
}

#[test]
fn l38_an_unacknowledged_stream_does_not_keep_its_client_attached() {
    let stage = Stage::with(&["puppet"], Sharing::Session, |settings| {
        settings.limits.detach = Duration::from_millis(300);
        settings.limits.keep_alive = Duration::from_millis(100);
        settings.limits.stalled = Duration::from_millis(500);
    });
    let (web, mut server) = stage.both();
    let listening = web.listen();
    let _vanished = vanishing(&web);
    listening.cut();
    assert!(server.has_ended());
    wait_until("nothing runs", PATIENCE, || stage.gateway.router().keeper().books().live == 0);
    assert_eq!(stage.gateway.router().clients(), 0);
    assert_eq!(web.send("POST", &request(&json!(1), "ping", &json!({}))).status, 200);
}

#[test]
fn u3_subscriptions_of_a_detached_client_are_renewed() {
    let stage = stage(Sharing::Session);
    let (web, mut server) = stage.both();
    let subscribe = request(&json!(1), "resources/subscribe", &json!({ "uri": "x:/1" }));
    let stream = web.begin("POST", &subscribe);
    let asked = server.expect("resources/subscribe");
    server.answer(&asked, &json!({}));
    assert_eq!(Reply::read(stream).expect("an answer").status, 200);
    server.expect("resources/unsubscribe");
    assert!(server.has_ended());
    // An event stream alone attaches the client again.
    let mut listening = web.listen();
    let mut server = stage.server(&json!({}));
    assert_eq!(server.expect("resources/subscribe")["params"]["uri"], "x:/1");
    server.say(
        r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x:/1"}}"#,
    );
    listening.expect("notifications/resources/updated");
}

#[test]
fn a_shared_server_stays_for_others() {
    let stage = stage(Sharing::All);
    let (web, mut server) = stage.both();
    let (here, _) = (stage.web().enter(), web);
    let _listening = here.listen();
    wait_until("one has vanished", PATIENCE, || stage.gateway.router().clients() == 1);
    let stream = here.begin("POST", &call(1));
    let asked = server.expect("tools/call");
    server.answer(&asked, &json!({}));
    assert_eq!(Reply::read(stream).expect("an answer").status, 200);
}
