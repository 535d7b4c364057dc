//! Starts, ends and time limits of servers, seen by clients.

use std::time::Duration;

use ostler::keeper::Sharing;
use ostler_testkit::wait_until;
use serde_json::json;

use crate::stage::Stage;

const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn t2_a_server_that_dies_fails_its_calls_and_the_next_call_starts_another() {
    let stage = Stage::new(Sharing::All);
    let mut client = stage.client();
    client.hello(&json!({}));
    let mut server = stage.server(&json!({}));
    client.welcome();
    client.request(&json!(1), "tools/call", &json!({}));
    server.expect("tools/call");
    drop(server);
    let failed = client.message();
    assert_eq!(failed["id"], 1);
    assert_eq!(failed["error"]["code"], -32603);
    assert_eq!(failed["error"]["data"]["gateway"]["reason"], "upstream_exited");
    stage.assert_nothing_started();
    client.request(&json!(2), "tools/call", &json!({}));
    let mut server = stage.server(&json!({}));
    let request = server.expect("tools/call");
    server.answer(&request, &json!({}));
    assert_eq!(client.message()["id"], 2);
}

#[test]
fn t1_a_call_that_takes_too_long_fails_and_progress_gives_it_time() {
    const LIMIT: Duration = Duration::from_millis(600);
    let stage = Stage::with(&["puppet"], |server| {
        server.sharing = Sharing::All;
        server.limits.call = LIMIT;
    });
    let mut client = stage.client();
    client.hello(&json!({}));
    let mut server = stage.server(&json!({}));
    client.welcome();
    client.request(&json!(1), "tools/call", &json!({ "_meta": { "progressToken": 1 } }));
    let request = server.expect("tools/call");
    let begin = std::time::Instant::now();
    while begin.elapsed() < 2 * LIMIT {
        server.say(&format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{},"progress":1}}}}"#,
            request["id"]
        ));
        client.expect("notifications/progress");
    }
    let failed = client.message();
    assert_eq!(failed["error"]["data"]["gateway"]["reason"], "timeout");
    let cancelled = server.expect("notifications/cancelled");
    assert_eq!(cancelled["params"]["requestId"], request["id"]);
}

#[test]
fn a_server_that_can_not_be_started_is_an_error_with_its_reason() {
    let stage = Stage::with(&["puppet"], |server| {
        server.spec_mut().unwrap().program = "no-such-program".into();
    });
    let mut client = stage.client();
    client.hello(&json!({}));
    let failed = client.message();
    assert_eq!(failed["id"], 0);
    let text = failed["error"]["message"].as_str().unwrap_or_default();
    assert!(text.contains("no-such-program: command not found"), "{text}");
}

#[test]
fn a_handshake_with_an_unknown_version_ends_the_server() {
    let stage = Stage::new(Sharing::All);
    let mut client = stage.client();
    client.hello(&json!({}));
    let mut server = stage.puppet();
    let hello = server.expect("initialize");
    server.answer(&hello, &json!({ "protocolVersion": "1789-07-14", "capabilities": {} }));
    let text = client.message()["error"]["message"].to_string();
    assert!(text.contains("1789-07-14"), "{text}");
    assert!(server.has_ended());
    wait_until("nothing is left", PATIENCE, || stage.router.keeper().books().live == 0);
}

#[test]
fn the_handshake_comes_first_and_only_once() {
    let stage = Stage::new(Sharing::All);
    let mut client = stage.client();
    client.request(&json!(1), "tools/list", &json!({}));
    assert_eq!(client.message()["error"]["code"], -32600);
    client.hello(&json!({}));
    let _server = stage.server(&json!({}));
    client.welcome();
    client.hello(&json!({}));
    assert_eq!(client.message()["error"]["code"], -32600);
}

/// Concurrent first callers share one process and one handshake.
#[test]
fn l29_a_hundred_clients_at_once_share_one_start() {
    let stage = Stage::new(Sharing::All);
    let mut clients: Vec<_> = (0..100).map(|_| stage.client()).collect();
    for client in &mut clients {
        client.hello(&json!({}));
    }
    let mut server = stage.server(&json!({}));
    for client in &mut clients {
        client.welcome();
        client.request(&json!(1), "tools/call", &json!({}));
    }
    for _ in 0..100 {
        let request = server.expect("tools/call");
        server.answer(&request, &json!({}));
    }
    for client in &clients {
        assert_eq!(client.message()["id"], 1);
    }
    assert_eq!(stage.router.keeper().books().started, 1);
    stage.assert_nothing_started();
}

#[test]
fn responses_to_requests_before_the_end_of_input_are_delivered() {
    let stage = Stage::new(Sharing::All);
    let mut client = stage.client();
    client.hello(&json!({}));
    let mut server = stage.server(&json!({}));
    client.welcome();
    client.request(&json!(1), "tools/call", &json!({}));
    let request = server.expect("tools/call");
    client.input = None;
    server.answer(&request, &json!({}));
    assert_eq!(client.message()["id"], 1);
    client.wait_closed();
}

/// A client that does not read delays no other client.
#[test]
fn o2_a_slow_client_blocks_no_other_client() {
    let stage = Stage::new(Sharing::All);
    let mut slow = stage.client();
    slow.hello(&json!({}));
    let mut server = stage.server(&json!({}));
    slow.welcome();
    let mut quick = stage.client();
    quick.enter();
    let large = "x".repeat(1 << 20);
    for id in 1..=8 {
        slow.request(&json!(id), "tools/call", &json!({}));
        let request = server.expect("tools/call");
        server.answer(&request, &json!(large));
        quick.request(&json!(id), "tools/call", &json!({}));
        let request = server.expect("tools/call");
        server.answer(&request, &json!({}));
        assert_eq!(quick.message()["id"], id);
    }
}
