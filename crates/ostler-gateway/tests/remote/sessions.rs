//! Sessions at remote servers: one per client, opened, expired and ended.

use std::sync::atomic::{AtomicUsize, Ordering};

use ostler_gateway::config::Carrier;
use ostler_testkit::{FakeHttp, Part, Reply, standard, wait_until};
use serde_json::json;

use crate::stage::{PATIENCE, Stage, answer, call, sent};

#[test]
fn a_client_has_its_own_remote_session_and_ends_it() {
    let number = AtomicUsize::new(0);
    let fake = FakeHttp::new(move |heard| {
        let reply = standard(heard);
        if !heard.is_call("initialize") {
            return reply;
        }
        let number = number.fetch_add(1, Ordering::SeqCst);
        let result = json!({ "protocolVersion": "2025-06-18", "capabilities": {} });
        let answer = json!({ "jsonrpc": "2.0", "id": heard.message()["id"], "result": result });
        Reply::json(&answer).with("mcp-session-id", &format!("own-{number}"))
    });
    let stage = Stage::new(&fake);
    let (mut one, mut other) = (stage.context(), stage.context());
    assert_eq!(call(&mut one, 1)["result"]["said"]["arguments"]["n"], 1);
    assert_eq!(call(&mut other, 2)["result"]["said"]["arguments"]["n"], 2);
    let session = |id| {
        let heard = fake.wait_for("the call", |heard| {
            heard.is_call("tools/call") && heard.message()["params"]["arguments"]["n"] == id
        });
        assert_eq!(heard.header("mcp-protocol-version"), "2025-06-18");
        assert_eq!(heard.header("accept"), "application/json, text/event-stream");
        heard.header("mcp-session-id").to_owned()
    };
    assert_ne!(session(1), session(2));
    let initialize = fake.wait_for("hello", |heard| heard.is_call("initialize"));
    assert_eq!(initialize.header("mcp-session-id"), "");
    let left = session(1);
    drop(one);
    fake.wait_for("its end", |heard| {
        heard.method == "DELETE" && heard.header("mcp-session-id") == left
    });
    assert!(call(&mut other, 3)["result"].is_object());
}

#[test]
fn a_notification_arrives_before_the_next_request() {
    let fake = FakeHttp::new(standard);
    let stage = Stage::new(&fake);
    call(&mut stage.context(), 1);
    let order: Vec<String> =
        fake.heard().iter().map(|heard| heard.message()["method"].to_string()).collect();
    let place = |method: &str| order.iter().position(|one| one.contains(method)).unwrap();
    assert!(place("initialize\"") < place("notifications/initialized"));
    assert!(place("notifications/initialized") < place("tools/"));
}

#[test]
fn an_expired_remote_session_fails_one_call_and_the_next_opens_another() {
    let fake = FakeHttp::new(|heard| {
        if heard.is_call("tools/call") && heard.message()["params"]["arguments"]["n"] == 1 {
            return Reply::status(404);
        }
        standard(heard)
    });
    let stage = Stage::new(&fake);
    let mut client = stage.context();
    let failed = call(&mut client, 1);
    assert_eq!(failed["error"]["code"], -32603);
    let text = failed["error"]["message"].as_str().unwrap();
    assert!(text.contains("far") && text.contains("forgotten the session"), "{text}");
    assert!(call(&mut client, 2)["result"].is_object());
    assert_eq!((sent(&fake, 1), sent(&fake, 2)), (1, 1));
    assert_eq!(fake.count(|heard| heard.is_call("initialize")), 2);
    // No session exists that a DELETE could end.
    assert_eq!(fake.count(|heard| heard.method == "DELETE"), 0);
}

#[test]
fn an_expired_session_may_be_reported_by_an_error_message() {
    let words =
        r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"No valid session ID provided"}}"#;
    let fake = FakeHttp::new(move |heard| {
        if heard.is_call("tools/call") && heard.message()["params"]["arguments"]["n"] == 1 {
            return Reply::json(&serde_json::from_str(words).unwrap()).as_status(400);
        }
        standard(heard)
    });
    let stage = Stage::new(&fake);
    let mut client = stage.context();
    assert!(call(&mut client, 1)["error"].is_object());
    assert!(call(&mut client, 2)["result"].is_object());
    assert_eq!(fake.count(|heard| heard.is_call("initialize")), 2);
}

#[test]
fn a_404_for_the_event_stream_does_not_expire_the_session() {
    let fake =
        FakeHttp::new(
            |heard| {
                if heard.method == "GET" { Reply::status(404) } else { standard(heard) }
            },
        );
    let stage = Stage::new(&fake);
    let mut client = stage.context();
    call(&mut client, 1);
    fake.wait_for("a stream is asked for", |heard| heard.method == "GET");
    (2..10).for_each(|id| assert!(call(&mut client, id)["result"].is_object()));
    assert_eq!(fake.count(|heard| heard.is_call("initialize")), 1);
}

#[test]
fn connections_are_used_again() {
    let fake = FakeHttp::new(standard);
    let stage = Stage::new(&fake);
    let mut client = stage.context();
    for id in 1..50 {
        call(&mut client, id);
    }
    assert!(fake.opened() < 6, "{} connections", fake.opened());
}

#[test]
fn an_sse_server_gets_requests_at_its_endpoint() {
    for carrier in [Carrier::Any, Carrier::Sse] {
        let fake = FakeHttp::new(|heard| match (heard.method.as_str(), heard.path.as_str()) {
            ("GET", "/sse") => {
                let endpoint = "event: endpoint\ndata: /post?id=7\n\n";
                Reply::stream([Part::Text(endpoint.into()), Part::Live])
            }
            ("POST", "/post?id=7") => Reply::status(202),
            _ => Reply::status(405),
        });
        let stage = Stage::with(&fake.url("/sse"), |settings| settings.carrier = carrier);
        let mut client = stage.client();
        client.hello(&json!({}));
        let reply = |method: &str| {
            let is_it = |heard: &ostler_testkit::Heard| {
                heard.is_call(method) && heard.path.starts_with("/post")
            };
            let id = fake.wait_for(method, is_it).message()["id"].clone();
            let result = json!({ "protocolVersion": "2024-11-05", "capabilities": {} });
            let message = json!({ "jsonrpc": "2.0", "id": id, "result": result });
            fake.push(&format!("event: message\ndata: {message}\n\n"));
        };
        reply("initialize");
        client.welcome();
        client.ready();
        client.request(&json!(1), "tools/call", &json!({}));
        reply("tools/call");
        assert!(answer(&client, 1)["result"].is_object());
        drop(client);
        stage.wait_empty();
        wait_until("the stream is closed", PATIENCE, || fake.open() == 0);
    }
}

#[test]
fn an_sse_endpoint_on_another_origin_is_refused() {
    let fake = FakeHttp::new(|heard| match heard.method.as_str() {
        "GET" => {
            let endpoint = "event: endpoint\ndata: http://elsewhere.invalid/post\n\n";
            Reply::stream([Part::Text(endpoint.into()), Part::Live])
        }
        _ => Reply::status(405),
    });
    let stage = Stage::with(&fake.url("/sse"), |settings| settings.carrier = Carrier::Sse);
    let mut client = stage.client();
    client.hello(&json!({}));
    let failed = client.message();
    let text = failed["error"]["message"].as_str().unwrap();
    assert!(text.contains("elsewhere.invalid"), "{failed}");
}
