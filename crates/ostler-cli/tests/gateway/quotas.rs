//! Limits of tokens: `tokens.NAME.limits`.

use std::io::Write;

use ostler_testkit::web::{Reply, Web, hello, request};
use ostler_testkit::{Launched, Stage, wait_until};
use serde_json::{Value, json};

use crate::http::echo;
use crate::test_gateway::{PATIENCE, TestGateway};
use crate::tokens::{CI, TEAM, serve_tokens};

/// A gateway whose token `ci` has these limits, a client with it and one with another token.
fn gateway(limits: &Value) -> (TestGateway, Launched, Web, Web) {
    let test_gateway = TestGateway::new(Stage::leaf());
    configure(&test_gateway, limits);
    let (gateway, address) = serve_tokens(&test_gateway);
    let of = |token| Web::new(address, "/mcp/a", token);
    (test_gateway, gateway, of(CI), of(TEAM))
}

fn configure(test_gateway: &TestGateway, limits: &Value) {
    let tokens = json!({
        "ci": { "token": "${CI_TOKEN}", "limits": limits },
        "team": { "token": "${TEAM_TOKEN}" },
    });
    let entry = test_gateway.stub("a", &[], &json!({}));
    test_gateway.configure_with(&[("a", entry)], &json!({ "tokens": tokens }));
}

fn ping(web: &Web) -> Reply {
    web.send("POST", &request(&json!(1), "ping", &json!({})))
}

/// Expects a 429 with a reason and a `Retry-After`.
fn assert_refused(mut reply: Reply, why: &str) -> u64 {
    let retry = reply.header("retry-after").and_then(|seconds| seconds.parse().ok());
    assert_eq!(reply.status, 429);
    let text = reply.message()["error"]["message"].to_string();
    assert!(text.contains(why), "{text}");
    retry.unwrap()
}

#[test]
fn sessions_of_a_token_have_a_limit() {
    let (test_gateway, mut gateway, ci, team) = gateway(&json!({ "sessions": 2 }));
    let (first, second) = (ci.enter(), ci.enter());
    let third = ci.enter();
    assert_eq!(ping(&first).status, 404, "it was away for the longest");
    let _listening = [second.listen(), third.listen()];
    let refused = ci.send("POST", &hello("2025-11-25", &json!({})));
    assert_eq!(assert_refused(refused, "this token has 2 sessions already"), 1);
    for _ in 0..4 {
        echo(&team.enter());
    }
    assert_eq!((ping(&second).status, ping(&third).status), (200, 200));
    test_gateway.down_with(&mut gateway);
}

#[test]
fn requests_in_flight_of_a_token_have_a_limit_over_all_of_its_sessions() {
    let (test_gateway, mut gateway, ci, team) = gateway(&json!({ "requests": 2 }));
    let (first, second) = (ci.enter(), ci.enter());
    let slow =
        request(&json!(7), "tools/call", &json!({ "name": "x", "arguments": { "never": true } }));
    let waiting = [first.begin("POST", &slow), second.begin("POST", &slow)];
    test_gateway.expect_calls(2);
    // A dropped connection cancels nothing.
    drop(waiting);
    assert_refused(ping(&first), "2 requests of this token are in flight already");
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 7 } });
    echo(&team.enter());
    assert_eq!(first.send("POST", &cancel.to_string()).status, 202);
    wait_until("one of them is over", PATIENCE, || ping(&second).status == 200);
    test_gateway.down_with(&mut gateway);
}

#[test]
fn requests_of_a_token_in_a_minute_have_a_limit_that_a_reload_changes() {
    let (test_gateway, mut gateway, ci, team) = gateway(&json!({ "requestsPerMinute": 30 }));
    let session = ci.enter();
    let refused = (0..40).map(|_| ping(&session)).find(|reply| reply.status != 200);
    let wait = assert_refused(refused.unwrap(), "used its requests of this minute");
    assert!((1..=2).contains(&wait), "{wait}");
    echo(&team.enter());
    configure(&test_gateway, &json!({ "requestsPerMinute": 1_000_000 }));
    test_gateway.ostler(&["reload"]);
    assert_eq!(ping(&session).status, 200, "its session stays");
    test_gateway.down_with(&mut gateway);
}

#[test]
fn the_bytes_of_a_tokens_requests_that_wait_have_a_limit() {
    let (test_gateway, mut gateway, ci, team) = gateway(&json!({ "waitingBytes": "256KiB" }));
    let call = |size: usize| {
        let arguments = json!({ "text": "x".repeat(size) });
        request(&json!(1), "tools/call", &json!({ "name": "x", "arguments": arguments }))
    };
    let session = ci.enter();
    assert_eq!(session.send("POST", &call(100 << 10)).status, 200);
    let mut large = session.send("POST", &call(300 << 10));
    let text = large.message()["error"]["message"].to_string();
    assert_eq!(large.status, 413);
    assert!(text.contains("more than the 262144 bytes that may wait"), "{text}");
    assert_eq!(team.enter().send("POST", &call(300 << 10)).status, 200);
    // A body that has arrived in part counts as well; if the call comes first, that one is refused instead.
    let head = session.text("POST", "").replace("Length: 0", "Length: 220000");
    wait_until("a call finds no room beside it", PATIENCE, || {
        let mut slow = session.connect();
        slow.write_all(head.as_bytes()).unwrap();
        slow.write_all(&vec![b' '; 200 << 10]).unwrap();
        let reply = session.send("POST", &call(100 << 10));
        let is_refused = reply.status == 429;
        if is_refused {
            assert_refused(reply, "bytes of waiting requests");
            assert_eq!(ping(&session).status, 200, "a small request finds room");
        }
        is_refused
    });
    wait_until("there is room again", PATIENCE, || {
        session.send("POST", &call(100 << 10)).status == 200
    });
    test_gateway.down_with(&mut gateway);
}

#[test]
fn a_batch_counts_as_many_requests_as_it_has() {
    let (test_gateway, mut gateway, ci, _) = gateway(&json!({ "requestsPerMinute": 30 }));
    let session = ci.enter_with("2025-03-26", &json!({}));
    let batch = |count: u64| {
        let pings = (0..count).map(|id| request(&json!(id), "ping", &json!({})));
        format!("[{}]", pings.collect::<Vec<_>>().join(","))
    };
    assert_eq!(session.send("POST", &batch(20)).status, 200);
    assert_refused(session.send("POST", &batch(20)), "used its requests of this minute");
    test_gateway.down_with(&mut gateway);
}
