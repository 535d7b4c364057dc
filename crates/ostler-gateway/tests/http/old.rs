//! Clients of 2024-11-05, which have one event stream for all messages.

use ostler::keeper::Sharing;
use ostler_testkit::wait_until;
use ostler_testkit::web::{Reply, Web, hello, request};
use serde_json::json;

use crate::stage::{PATIENCE, Stage};

/// An event stream, and a client with the endpoint that it announced.
fn open(stage: &Stage) -> (Reply, Web) {
    let mut stream = stage.web_at("/sse/puppet").without("Content-Type").listen();
    let first = stream.event().expect("an event");
    assert_eq!(first.name.as_deref(), Some("endpoint"));
    assert!(first.data.starts_with("/sse/puppet?session="), "{first:?}");
    (stream, stage.web_at(&first.data).with("Accept", "*/*"))
}

#[test]
fn an_sse_client_gets_every_message_on_its_stream() {
    let stage = Stage::new(Sharing::Session);
    let (mut stream, web) = open(&stage);
    assert_eq!(web.send("POST", &hello("2024-11-05", &json!({ "roots": {} }))).status, 202);
    let mut server = stage.server(&json!({}));
    assert_eq!(stream.message()["result"]["protocolVersion"], "2024-11-05");
    let meta = json!({ "_meta": { "progressToken": 7 } });
    for id in 1..=3 {
        assert_eq!(web.send("POST", &request(&json!(id), "tools/call", &meta)).status, 202);
        let call = server.expect("tools/call");
        let token = &call["params"]["_meta"]["progressToken"];
        let params = json!({ "progressToken": token, "progress": id });
        let progress = json!({ "method": "notifications/progress", "params": params });
        server.say(&progress.to_string());
        server.say(r#"{"jsonrpc":"2.0","id":"r","method":"roots/list"}"#);
        assert_eq!(stream.expect("notifications/progress")["params"]["progressToken"], 7);
        let asked = stream.expect("roots/list");
        let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "roots": [] } });
        assert_eq!(web.send("POST", &answer.to_string()).status, 202);
        assert_eq!(server.message()["id"], "r");
        server.answer(&call, &json!({}));
        assert_eq!(stream.message()["id"], id);
    }
    // The session ends with the stream.
    stream.cut();
    assert!(server.has_ended());
    wait_until("no client is attached", PATIENCE, || stage.gateway.router().clients() == 0);
    assert_eq!(web.send("POST", &request(&json!(9), "ping", &json!({}))).status, 404);
}

#[test]
fn the_two_http_transports_do_not_mix() {
    let stage = Stage::new(Sharing::All);
    let (_stream, old) = open(&stage);
    let id = old.path.split('=').nth(1).expect("an id");
    let ping = request(&json!(1), "ping", &json!({}));
    let mixed = stage.web().with("Mcp-Session-Id", id);
    assert_eq!(mixed.send("POST", &ping).status, 404);
    assert_eq!(stage.web_at("/sse/puppet").send("POST", &ping).status, 400);
    let unknown = stage.web_at("/sse/puppet?session=00000000000000000000000000000000");
    assert_eq!(unknown.send("POST", &ping).status, 404);
    assert_eq!(stage.web_at("/sse/puppet").send("DELETE", "").status, 405);
    assert_eq!(stage.web_at("/sse/unknown").send("GET", "").status, 404);
    let foreign = stage.web_at("/sse/puppet").with("Authorization", "Bearer wrong");
    assert_eq!(foreign.send("GET", "").status, 401);
}
