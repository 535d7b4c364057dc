//! Clients that vanish, and come back.

use std::time::Duration;

use ostler::keeper::Sharing;
use ostler_testkit::wait_until;
use ostler_testkit::web::{Reply, request};
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

#[test]
fn h4_a_client_that_vanished_lets_go_and_its_session_knows_it_when_it_comes_back() {
    let stage = stage(Sharing::Session);
    let (web, mut server) = stage.both_in("2025-11-25", &json!({ "elicitation": {} }));
    let stream = web.begin("POST", &call(1));
    server.expect("tools/call");
    // Cut in the middle of a call.
    drop(stream);
    assert_eq!(server.expect("notifications/cancelled")["params"]["reason"], "the client has gone");
    assert!(server.has_ended());
    wait_until("nothing runs", PATIENCE, || stage.house.gateway().keeper().books().live == 0);
    assert_eq!(stage.house.gateway().clients(), 0);
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
fn h4_a_client_that_listens_or_waits_has_not_vanished() {
    let stage = stage(Sharing::Session);
    let (web, mut server) = stage.both();
    let listening = web.listen();
    std::thread::sleep(Duration::from_millis(900));
    assert_eq!(stage.house.gateway().clients(), 1);
    let stream = web.begin("POST", &call(1));
    let asked = server.expect("tools/call");
    listening.cut();
    // Only the call shows that it is there.
    std::thread::sleep(Duration::from_millis(900));
    server.answer(&asked, &json!({}));
    assert_eq!(Reply::read(stream).expect("an answer").message()["id"], 1);
    assert!(server.has_ended());
}

#[test]
fn u3_what_it_subscribed_to_is_subscribed_to_again() {
    let stage = stage(Sharing::Session);
    let (web, mut server) = stage.both();
    let subscribe = request(&json!(1), "resources/subscribe", &json!({ "uri": "x:/1" }));
    let stream = web.begin("POST", &subscribe);
    let asked = server.expect("resources/subscribe");
    server.answer(&asked, &json!({}));
    assert_eq!(Reply::read(stream).expect("an answer").status, 200);
    server.expect("resources/unsubscribe");
    assert!(server.has_ended());
    // It only listens, and that is enough.
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
    wait_until("one has vanished", PATIENCE, || stage.house.gateway().clients() == 1);
    let stream = here.begin("POST", &call(1));
    let asked = server.expect("tools/call");
    server.answer(&asked, &json!({}));
    assert_eq!(Reply::read(stream).expect("an answer").status, 200);
}
