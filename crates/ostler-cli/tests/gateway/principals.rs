//! Two tokens at one server: failures caused by one do not affect the other.

use std::time::{Duration, Instant};

use ostler_testkit::web::{Web, hello};
use ostler_testkit::{Launched, Stage};
use serde_json::{Value, json};

use crate::http::echo;
use crate::test_gateway::TestGateway;
use crate::tokens::{CI, TEAM, serve_tokens};

/// Handshakes that a hostile client sends one after the other.
const HANDSHAKES: usize = 30;
/// Bound of a call that does not wait; the backoff after these failures is far longer.
const PROMPT: Duration = Duration::from_secs(5);

/// A gateway with two tokens and this server.
fn gateway(switches: &[&str], more: &Value) -> (TestGateway, Launched, Web, Web) {
    let test_gateway = TestGateway::new(Stage::leaf());
    let tokens = json!({
        "ci": { "token": "${CI_TOKEN}" },
        "team": { "token": "${TEAM_TOKEN}" },
    });
    let caps = json!({ "queueTimeout": "300ms" });
    let entry = test_gateway.stub("a", switches, more);
    test_gateway.configure_with(&[("a", entry)], &json!({ "tokens": tokens, "caps": caps }));
    let (gateway, address) = serve_tokens(&test_gateway);
    let of = |token| Web::new(address, "/mcp/a", token);
    (test_gateway, gateway, of(CI), of(TEAM))
}

/// Sends handshakes that each have capabilities of their own, and returns how many servers they started.
fn attack(test_gateway: &TestGateway, hostile: &Web, word: &str) -> usize {
    for number in 0..HANDSHAKES {
        let capabilities = json!({ "experimental": { word: { "number": number } } });
        let answer = hostile.send("POST", &hello("2025-11-25", &capabilities)).message();
        assert!(answer["error"].is_object(), "{answer}");
    }
    test_gateway.starts("a").len()
}

fn assert_prompt(victim: &Web) {
    let begin = Instant::now();
    echo(&victim.enter());
    assert!(begin.elapsed() < PROMPT, "it took {:?}", begin.elapsed());
}

#[test]
fn handshakes_that_make_a_server_exit_count_against_their_token_alone() {
    for share in ["session", "agent", "call"] {
        let more = json!({ "share": share });
        let (test_gateway, mut gateway, hostile, victim) =
            gateway(&["--exit-on-hello", "poison"], &more);
        let starts = attack(&test_gateway, &hostile, "poison");
        assert!(starts <= HANDSHAKES / 3, "{starts} starts for {share}");
        assert_prompt(&victim);
        test_gateway.down_with(&mut gateway);
    }
}

#[test]
fn handshakes_that_a_server_refuses_count_against_their_token_alone() {
    let (test_gateway, mut gateway, hostile, victim) =
        gateway(&["--refuse-hello", "poison"], &json!({ "share": "session" }));
    let starts = attack(&test_gateway, &hostile, "poison");
    assert!(starts <= HANDSHAKES / 3, "{starts} starts");
    assert_prompt(&victim);
    test_gateway.down_with(&mut gateway);
}

#[test]
fn malformed_handshakes_start_nothing() {
    let (test_gateway, mut gateway, hostile, victim) = gateway(&[], &json!({ "share": "session" }));
    for path in ["/mcp/a", "/mcp"] {
        let mut hostile = hostile.clone();
        hostile.path = path.into();
        for capabilities in [json!(5), json!([]), json!("x"), json!(null), json!(true)] {
            let answer = hostile.send("POST", &hello("2025-11-25", &capabilities)).message();
            assert_eq!(answer["error"]["code"], -32602, "{capabilities}: {answer}");
        }
    }
    assert!(test_gateway.starts("a").is_empty());
    assert_prompt(&victim);
    test_gateway.down_with(&mut gateway);
}
