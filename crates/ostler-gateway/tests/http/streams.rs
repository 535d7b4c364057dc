//! Event streams: the stream of each message, and resumption.

use std::time::Duration;

use ostler::keeper::Sharing;
use ostler_testkit::web::{Reply, request};
use serde_json::{Value, json};

use crate::stage::Stage;

fn progress(call: &Value, progress: u64) -> String {
    let token = &call["params"]["_meta"]["progressToken"];
    let params = json!({ "progressToken": token, "progress": progress });
    json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params }).to_string()
}

fn call(id: u64) -> String {
    request(&json!(id), "tools/call", &json!({ "_meta": { "progressToken": "p" } }))
}

const CHANGED: &str =
    r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x:/1"}}"#;

#[test]
fn h6_the_first_notification_turns_a_response_into_an_event_stream() {
    let stage = Stage::new(Sharing::All);
    let (web, mut server) = stage.both();
    let stream = web.begin("POST", &call(1));
    let request = server.expect("tools/call");
    for step in 1..=3 {
        server.say(&progress(&request, step));
    }
    server.answer(&request, &json!({}));
    let mut reply = Reply::read(stream).expect("an answer");
    assert!(reply.is_stream());
    assert_eq!(reply.header("x-accel-buffering"), Some("no"));
    let primer = reply.event().expect("an event");
    assert!(primer.data.is_empty() && primer.retry.is_some() && primer.id.is_some());
    for step in 1..=3 {
        let told = reply.expect("notifications/progress");
        assert_eq!(told["params"], json!({ "progressToken": "p", "progress": step }));
    }
    assert_eq!(reply.message()["id"], 1);
    assert_eq!(reply.said(), None);
}

#[test]
fn h6_a_slow_response_comes_on_an_event_stream() {
    let stage = Stage::with(&["puppet"], Sharing::All, |settings| {
        settings.limits.patience = Duration::from_millis(100);
    });
    let (web, mut server) = stage.both();
    let stream = web.begin("POST", &call(1));
    let request = server.expect("tools/call");
    // The head arrives before any message.
    let mut reply = Reply::read(stream).expect("an answer");
    assert!(reply.is_stream());
    server.answer(&request, &json!({ "late": true }));
    assert_eq!(reply.message()["result"], json!({ "late": true }));
    assert_eq!(reply.said(), None);
}

#[test]
fn h3_older_clients_get_no_empty_events() {
    let stage = Stage::new(Sharing::All);
    let (web, mut server) = stage.both_in("2025-06-18", &json!({}));
    let stream = web.begin("POST", &call(1));
    let request = server.expect("tools/call");
    server.say(&progress(&request, 1));
    server.answer(&request, &json!({}));
    let mut reply = Reply::read(stream).expect("an answer");
    let first = reply.event().expect("an event");
    assert!(first.data.contains("progress") && first.retry.is_none(), "{first:?}");
}

#[test]
fn h3_a_notification_without_a_request_goes_to_one_event_stream() {
    let stage = Stage::new(Sharing::All);
    let (web, mut server) = stage.both();
    let stream =
        web.begin("POST", &request(&json!(1), "resources/subscribe", &json!({ "uri": "x:/1" })));
    let asked = server.expect("resources/subscribe");
    server.answer(&asked, &json!({}));
    assert_eq!(Reply::read(stream).expect("an answer").status, 200);
    // Without an event stream the notification is queued.
    server.say(CHANGED);
    let ping = request(&json!(2), "ping", &json!({}));
    let stream = web.begin("POST", &call(3));
    let asked = server.expect("tools/call");
    server.answer(&asked, &json!({}));
    assert!(!Reply::read(stream).expect("an answer").is_stream());
    let mut first = web.listen();
    first.expect("notifications/resources/updated");
    let mut second = web.listen();
    assert_eq!(web.send("POST", &ping).status, 200);
    server.say(CHANGED);
    second.expect("notifications/resources/updated");
    second.cut();
    // The older stream did not get this one, and gets the next.
    let mut third = web.listen();
    server.say(CHANGED);
    third.expect("notifications/resources/updated");
    assert_eq!(web.send("DELETE", "").status, 200);
    assert_eq!(first.said(), None, "it was told twice");
}

#[test]
fn h3_a_dropped_event_stream_resumes_at_the_last_event() {
    let stage = Stage::new(Sharing::All);
    let (web, mut server) = stage.both();
    let stream = web.begin("POST", &call(1));
    let request = server.expect("tools/call");
    server.say(&progress(&request, 1));
    let mut reply = Reply::read(stream).expect("an answer");
    let last = reply.said().expect("an event").id.expect("an id");
    reply.cut();
    // No stream is open for these messages.
    server.say(&progress(&request, 2));
    server.answer(&request, &json!({ "late": true }));
    let mut resumed = web.clone().with("Last-Event-ID", &last).listen();
    assert_eq!(resumed.expect("notifications/progress")["params"]["progress"], 2);
    let answer = resumed.said().expect("an event");
    assert!(answer.data.contains("late"));
    assert_eq!(resumed.said(), None);
    // The stream can also be replayed from its beginning.
    let track = last.split('.').next().expect("a stream");
    let mut again = web.clone().with("Last-Event-ID", &format!("{track}.0")).listen();
    let progress = [again.message(), again.message()].map(|one| one["params"]["progress"].clone());
    assert_eq!(progress, [json!(1), json!(2)]);
    assert_eq!(again.said().expect("an event"), answer);
    assert_eq!(again.said(), None);
}

#[test]
fn h3_only_the_same_stream_is_replayed() {
    let stage = Stage::new(Sharing::All);
    let (web, mut server) = stage.both();
    let streams = [1, 2].map(|id| web.begin("POST", &call(id)));
    let calls = [server.expect("tools/call"), server.expect("tools/call")];
    for call in &calls {
        server.say(&progress(call, 1));
    }
    let mut replies = streams.map(|stream| Reply::read(stream).expect("an answer"));
    let lasts = replies.each_mut().map(|reply| reply.said().expect("an event").id.expect("an id"));
    for call in &calls {
        server.answer(call, &json!({}));
    }
    let ids = replies.each_mut().map(|reply| reply.message()["id"].clone());
    for (last, id) in lasts.iter().zip(&ids) {
        let mut resumed = web.clone().with("Last-Event-ID", last).listen();
        assert_eq!(resumed.message()["id"], *id);
        assert_eq!(resumed.said(), None);
    }
    // An unknown event id opens a new stream.
    let unknown = web.clone().with("Last-Event-ID", "999.7").listen();
    assert!(unknown.is_stream());
}

#[test]
fn c2_a_dropped_connection_cancels_nothing() {
    let stage = Stage::new(Sharing::Session);
    let (web, mut server) = stage.both();
    let stream = web.begin("POST", &call(1));
    let first = server.expect("tools/call");
    drop(stream);
    let stream = web.begin("POST", &call(2));
    let second = server.expect("tools/call");
    server.answer(&first, &json!({}));
    server.answer(&second, &json!({}));
    assert_eq!(Reply::read(stream).expect("an answer").message()["id"], 2);
}

#[test]
fn c2_a_cancelled_call_ends_its_event_stream() {
    let stage = Stage::new(Sharing::All);
    let (web, mut server) = stage.both();
    let stream = web.begin("POST", &call(1));
    let request = server.expect("tools/call");
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
    assert_eq!(web.send("POST", cancel).status, 202);
    let cancelled = server.expect("notifications/cancelled");
    assert_eq!(cancelled["params"]["requestId"], request["id"]);
    let mut reply = Reply::read(stream).expect("an answer");
    assert_eq!((reply.status, reply.said()), (200, None));
}

#[test]
fn s3_a_server_request_arrives_on_the_stream_of_its_call() {
    let stage = Stage::new(Sharing::Session);
    let (web, mut server) = stage.both_in("2025-11-25", &json!({ "elicitation": {} }));
    let mut listening = web.listen();
    let stream = web.begin("POST", &call(1));
    let request = server.expect("tools/call");
    server.say(
        r#"{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"?"}}"#,
    );
    let mut reply = Reply::read(stream).expect("an answer");
    let asked = reply.expect("elicitation/create");
    let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "action": "accept" } });
    assert_eq!(web.send("POST", &answer.to_string()).status, 202);
    assert_eq!(server.message()["id"], "q");
    server.answer(&request, &json!({}));
    assert_eq!(reply.message()["id"], 1);
    assert_eq!(web.send("DELETE", "").status, 200);
    assert_eq!(listening.said(), None);
}

#[test]
fn o1_five_hundred_notifications_stay_in_order_before_their_answer() {
    let stage = Stage::new(Sharing::All);
    let (web, mut server) = stage.both();
    let stream = web.begin("POST", &call(1));
    let request = server.expect("tools/call");
    for step in 0..500 {
        server.say(&progress(&request, step));
    }
    server.answer(&request, &json!({}));
    let mut reply = Reply::read(stream).expect("an answer");
    for step in 0..500 {
        assert_eq!(reply.expect("notifications/progress")["params"]["progress"], step);
    }
    assert_eq!(reply.message()["id"], 1);
}
