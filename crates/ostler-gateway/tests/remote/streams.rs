//! Event streams of remote servers: complete, broken, and resumed without repeating the call.

use std::sync::atomic::{AtomicUsize, Ordering};

use ostler_testkit::{FakeHttp, Heard, Part, Reply, standard, wait_until};
use serde_json::{Value, json};

use crate::stage::{PATIENCE, Stage, answer, call, sent};

fn progress(heard: &Heard, progress: u64) -> Value {
    let token = &heard.message()["params"]["_meta"]["progressToken"];
    let params = json!({ "progressToken": token, "progress": progress });
    json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params })
}

fn result(id: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": { "done": true } })
}

#[test]
fn messages_of_a_stream_arrive_in_order() {
    let fake = FakeHttp::new(|heard| {
        if !heard.is_call("tools/call") {
            return standard(heard);
        }
        let steps = (0..100).map(|step| Part::event(&progress(heard, step)));
        Reply::stream(steps.chain([Part::event(&result(&heard.message()["id"]))]))
    });
    let stage = Stage::new(&fake);
    let mut client = stage.context();
    client.request(&json!(1), "tools/call", &json!({ "_meta": { "progressToken": "p" } }));
    for step in 0..100 {
        let message = client.expect("notifications/progress");
        assert_eq!(message["params"], json!({ "progressToken": "p", "progress": step }));
    }
    assert_eq!(client.message()["id"], 1);
}

/// A server whose streams break after one event, and that sends the rest to a request with `Last-Event-ID`.
fn breaking(resumed: impl Fn(&Heard, &Value) -> Reply + Send + Sync + 'static) -> FakeHttp {
    let last = std::sync::Mutex::new(Value::Null);
    FakeHttp::new(move |heard| {
        if heard.is_call("tools/call") {
            *last.lock().unwrap() = heard.message()["id"].clone();
            let first = "retry: 1\nid: a-1\ndata:\n\n";
            return Reply::stream([Part::Text(first.into()), Part::Cut]);
        }
        if heard.method == "GET" && !heard.header("last-event-id").is_empty() {
            return resumed(heard, &last.lock().unwrap());
        }
        standard(heard)
    })
}

#[test]
fn a_broken_stream_resumes_at_the_last_event() {
    let fake = breaking(|heard, id| {
        assert_eq!(heard.header("mcp-session-id"), "session-1");
        match heard.header("last-event-id") {
            "a-1" => Reply::stream([Part::Text("id: a-2\ndata:\n\n".into()), Part::Cut]),
            "a-2" => Reply::stream([Part::event_with_id("a-3", &result(id))]),
            _ => Reply::status(400),
        }
    });
    let stage = Stage::new(&fake);
    assert_eq!(call(&mut stage.context(), 1)["result"], json!({ "done": true }));
    assert_eq!(sent(&fake, 1), 1);
}

#[test]
fn a_stream_may_break_any_number_of_times_while_events_arrive() {
    let polls = AtomicUsize::new(1);
    let fake = breaking(move |_, id| match polls.fetch_add(1, Ordering::SeqCst) {
        20 => Reply::stream([Part::event(&result(id))]),
        poll => Reply::stream([Part::Text(format!("id: p-{poll}\ndata:\n\n"))]),
    });
    let stage = Stage::new(&fake);
    assert_eq!(call(&mut stage.context(), 1)["result"], json!({ "done": true }));
    assert_eq!(sent(&fake, 1), 1);
}

#[test]
fn a_stream_that_cannot_resume_fails_its_call_without_a_retry() {
    let refusing = breaking(|_, _| Reply::status(400));
    let in_vain = breaking(|_, _| Reply::stream([Part::Cut]));
    let without_ids = FakeHttp::new(|heard| {
        if heard.is_call("tools/call") { Reply::stream([Part::Cut]) } else { standard(heard) }
    });
    for fake in [refusing, in_vain, without_ids] {
        let stage = Stage::new(&fake);
        let mut client = stage.context();
        let failed = call(&mut client, 1);
        assert_eq!(failed["error"]["data"]["gateway"]["reason"], "upstream_dropped", "{failed}");
        assert_eq!(sent(&fake, 1), 1);
        let resumptions = fake.count(|heard| !heard.header("last-event-id").is_empty());
        assert!(resumptions <= 6, "{resumptions}");
        // The session continues.
        assert_eq!(fake.count(|heard| heard.is_call("initialize")), 1);
    }
}

#[test]
fn the_event_stream_for_notifications_reconnects_after_a_break() {
    let streams = AtomicUsize::new(0);
    let fake = FakeHttp::new(move |heard| {
        if heard.method != "GET" {
            return standard(heard);
        }
        match streams.fetch_add(1, Ordering::SeqCst) {
            0 => Reply::stream([Part::Text("retry: 1\nid: s-1\ndata:\n\n".into()), Part::Cut]),
            _ => Reply::stream([Part::Live]),
        }
    });
    let stage = Stage::new(&fake);
    let mut client = stage.context();
    call(&mut client, 1);
    let again = fake.wait_for("the second stream", |heard| {
        heard.method == "GET" && heard.header("last-event-id") == "s-1"
    });
    assert_eq!(again.header("mcp-session-id"), "session-1");
    wait_until("an event stream is open", PATIENCE, || fake.listeners() == 1);
    let roots = json!({ "jsonrpc": "2.0", "id": "q", "method": "ping" });
    fake.push(&format!("data: {roots}\n\n"));
    fake.wait_for("the answer", |heard| heard.message()["id"] == "q");
    let changed = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
    let before = fake.count(|heard| heard.is_call("tools/list"));
    fake.push(&format!("data: {changed}\n\n"));
    let has_asked = || fake.count(|heard| heard.is_call("tools/list")) > before;
    wait_until("the list is asked for again", PATIENCE, has_asked);
}

#[test]
fn a_server_without_an_event_stream_is_asked_once() {
    let fake = FakeHttp::new(standard);
    let stage = Stage::new(&fake);
    let mut client = stage.context();
    (1..20).for_each(|id| drop(call(&mut client, id)));
    assert_eq!(fake.count(|heard| heard.method == "GET"), 1);
}

#[test]
fn a_cancelled_call_gives_its_connection_back() {
    let fake = FakeHttp::new(|heard| {
        if heard.is_call("tools/call") { Reply::stream([Part::Live]) } else { standard(heard) }
    });
    let stage = Stage::new(&fake);
    let mut client = stage.context();
    client.request(&json!(1), "tools/call", &json!({}));
    let sent = fake.wait_for("the call", |heard| heard.is_call("tools/call"));
    wait_until("its stream is open", PATIENCE, || fake.listeners() == 1);
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
    client.say(cancel);
    let cancelled = fake.wait_for("the word", |heard| heard.is_call("notifications/cancelled"));
    assert_eq!(cancelled.message()["params"]["requestId"], sent.message()["id"]);
    wait_until("its stream is closed", PATIENCE, || {
        fake.push(": still there?\n\n");
        fake.listeners() == 0
    });
}

#[test]
fn a_response_with_line_breaks_is_one_message() {
    let fake = FakeHttp::new(|heard| {
        if !heard.is_call("tools/call") {
            return standard(heard);
        }
        let id = &heard.message()["id"];
        let event = format!(
            "data: {{\"jsonrpc\":\"2.0\",\ndata: \"id\":{id},\ndata: \"result\":{{}}}}\n\n"
        );
        Reply::stream([Part::Text(event)])
    });
    let stage = Stage::new(&fake);
    let mut client = stage.context();
    client.request(&json!(1), "tools/call", &json!({}));
    assert_eq!(answer(&client, 1)["result"], json!({}));
}
