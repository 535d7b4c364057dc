//! Sessions: handshake, ownership and end.

use ostler::keeper::Sharing;
use ostler_gateway::front::http::Credential;
use ostler_testkit::wait_until;
use ostler_testkit::web::{Reply, hello, request};
use serde_json::json;

use crate::stage::{PATIENCE, Stage};

#[test]
fn h2_a_handshake_opens_a_session_and_its_answers_are_plain() {
    let stage = Stage::new(Sharing::All);
    let (web, mut server) = stage.both();
    assert_eq!(web.session().len(), 32);
    let stream = web.begin("POST", &request(&json!("x"), "tools/call", &json!({ "name": "t" })));
    let call = server.expect("tools/call");
    server.answer(&call, &json!({ "big": 1 }));
    let mut reply = Reply::read(stream).expect("an answer");
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("application/json")));
    assert_eq!(reply.text(), "{\"id\":\"x\",\"jsonrpc\":\"2.0\",\"result\":{\"big\":1}}\n");
}

#[test]
fn h2_every_version_with_a_handshake_is_answered_in_kind() {
    let stage = Stage::new(Sharing::All);
    let (_web, _server) = stage.both();
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let answer = stage.web().send("POST", &hello(version, &json!({}))).message();
        assert_eq!(answer["result"]["protocolVersion"], version);
    }
    let answer = stage.web().send("POST", &hello("2199-01-01", &json!({}))).message();
    assert_eq!(answer["result"]["protocolVersion"], "2025-11-25");
}

#[test]
fn h2_a_session_that_was_deleted_is_gone() {
    let stage = Stage::new(Sharing::Session);
    let (web, mut server) = stage.both();
    let listening = web.listen();
    assert_eq!(web.send("DELETE", "").status, 200);
    assert!(server.has_ended());
    for method in ["POST", "GET", "DELETE"] {
        assert_eq!(web.send(method, &request(&json!(1), "ping", &json!({}))).status, 404);
    }
    let mut listening = listening;
    assert_eq!(listening.said(), None);
    wait_until("nothing is left", PATIENCE, || {
        stage.gateway.router().keeper().books().live == 0 && stage.gateway.router().clients() == 0
    });
}

#[test]
fn h2_a_waiting_request_of_a_deleted_session_gets_404() {
    let stage = Stage::new(Sharing::Session);
    let (web, mut server) = stage.both();
    let stream = web.begin("POST", &request(&json!(1), "tools/call", &json!({})));
    server.expect("tools/call");
    assert_eq!(web.send("DELETE", "").status, 200);
    assert_eq!(Reply::read(stream).expect("an answer").status, 404);
}

#[test]
fn h2_notifications_and_responses_are_accepted_with_202() {
    let stage = Stage::new(Sharing::All);
    let (web, _server) = stage.both();
    for said in [
        r#"{"jsonrpc":"2.0","method":"notifications/whatever"}"#,
        r#"{"jsonrpc":"2.0","id":9,"result":{}}"#,
    ] {
        let mut reply = web.send("POST", said);
        assert_eq!((reply.status, reply.text().as_str()), (202, ""));
    }
}

#[test]
fn h2_a_session_belongs_to_its_token_and_its_path() {
    let stage = Stage::with(&["other", "puppet"], Sharing::All, |settings| {
        settings.credentials.push(Credential::named("second", "another-token".into()));
    });
    let web = stage.web();
    let stream = web.begin("POST", &hello("2025-11-25", &json!({})));
    stage.puppets["puppet"].next().greet(&json!({}));
    let inside = web.welcome(Reply::read(stream).expect("an answer"));
    let ping = request(&json!(1), "ping", &json!({}));
    assert_eq!(inside.send("POST", &ping).status, 200);
    let foreign = inside.clone().with("Authorization", "Bearer another-token");
    assert_eq!(foreign.send("POST", &ping).status, 404);
    assert_eq!(foreign.send("DELETE", "").status, 404);
    let mut elsewhere = inside.clone();
    elsewhere.path = "/mcp/other".into();
    assert_eq!(elsewhere.send("POST", &ping).status, 404);
    assert_eq!(inside.send("POST", &ping).status, 200);
}

#[test]
fn a_token_with_a_list_of_servers_sees_no_other() {
    let stage = Stage::with(&["other", "puppet"], Sharing::All, |settings| {
        let names = ["oth*".to_owned()].into_iter().collect();
        let few = Credential::named("few", "few".into()).to_servers(names);
        settings.credentials.push(few);
    });
    let few = stage.web().with("Authorization", "Bearer few");
    let mut refused = few.send("POST", &hello("2025-11-25", &json!({})));
    assert_eq!(refused.status, 404);
    let text = refused.message()["error"]["message"].to_string();
    assert!(text.contains("there is only other"), "{text}");
    let mut all = few;
    all.path = "/mcp".into();
    let all = all.enter();
    let list = all.begin("POST", &request(&json!(1), "tools/list", &json!({})));
    let mut other = stage.puppets["other"].next();
    other.greet(&json!({ "tools": {} }));
    let asked = other.expect("tools/list");
    other.answer(&asked, &json!({ "tools": [{ "name": "t", "inputSchema": {} }] }));
    let listed = Reply::read(list).expect("an answer").message();
    assert_eq!(listed["result"]["tools"].as_array().map(Vec::len), Some(1), "{listed}");
    assert!(stage.puppets["puppet"].is_idle());
}

#[test]
fn all_servers_are_served_as_one() {
    let stage = Stage::with(&["one", "two"], Sharing::All, |_| {});
    let web = stage.web_at("/mcp").enter();
    let stream = web.begin("POST", &request(&json!(1), "tools/list", &json!({})));
    for puppets in stage.puppets.values() {
        let mut server = puppets.next();
        server.greet(&json!({ "tools": {} }));
        let asked = server.expect("tools/list");
        server.answer(&asked, &json!({ "tools": [{ "name": "t", "inputSchema": {} }] }));
    }
    let listed = Reply::read(stream).expect("an answer").message();
    assert_eq!(listed["result"]["tools"].as_array().map(Vec::len), Some(2), "{listed}");
}

#[test]
fn an_agent_is_named_by_a_header_and_its_sessions_share() {
    let stage = Stage::new(Sharing::Agent);
    let web = stage.web().with("Ostler-Agent", "me");
    let stream = web.begin("POST", &hello("2025-11-25", &json!({})));
    let mut server = stage.server(&json!({}));
    let one = web.welcome(Reply::read(stream).expect("an answer"));
    let two = web.enter();
    for client in [&one, &two] {
        let stream = client.begin("POST", &request(&json!(1), "tools/call", &json!({})));
        let call = server.expect("tools/call");
        server.answer(&call, &json!({}));
        assert_eq!(Reply::read(stream).expect("an answer").status, 200);
    }
    let names: Vec<_> = stage.gateway.router().sessions();
    assert!(names.iter().all(|session| format!("{:?}", session.who).contains("me")), "{names:?}");
    assert_eq!(stage.gateway.router().keeper().books().started, 1);
}

#[test]
fn a_handshake_that_fails_opens_nothing() {
    let stage = Stage::new(Sharing::All);
    let stream = stage.web().begin("POST", &hello("2025-11-25", &json!({})));
    let mut server = stage.puppet();
    let asked = server.expect("initialize");
    server.answer(&asked, &json!({ "protocolVersion": "1789-07-14", "capabilities": {} }));
    let mut reply = Reply::read(stream).expect("an answer");
    assert_eq!((reply.status, reply.header("mcp-session-id")), (200, None));
    assert!(reply.message()["error"].is_object());
    wait_until("no client is attached", PATIENCE, || stage.gateway.router().clients() == 0);
}

#[test]
fn i1_a_request_id_in_flight_cannot_be_used_again() {
    let stage = Stage::new(Sharing::All);
    let (web, mut server) = stage.both();
    let text = request(&json!("1"), "tools/call", &json!({}));
    let number = web.begin("POST", &request(&json!(1), "tools/call", &json!({})));
    let first = server.expect("tools/call");
    let word = web.begin("POST", &text);
    let second = server.expect("tools/call");
    let again = web.send("POST", &text).message();
    assert_eq!((&again["id"], &again["error"]["code"]), (&json!("1"), &json!(-32600)));
    server.answer(&second, &json!("b"));
    server.answer(&first, &json!("a"));
    let answers = [number, word].map(|stream| Reply::read(stream).expect("an answer").message());
    assert_eq!(answers.map(|answer| answer["result"].clone()), [json!("a"), json!("b")]);
}

#[test]
fn b1_a_batch_is_answered_as_a_batch_in_the_version_that_has_batches() {
    let stage = Stage::new(Sharing::All);
    let (web, mut server) = stage.both_in("2025-03-26", &json!({}));
    let batch = r#"[{"jsonrpc":"2.0","id":1,"method":"tools/call"},
        {"jsonrpc":"2.0","method":"notifications/x"},
        {"jsonrpc":"2.0","id":2,"method":"ping"}]"#;
    let stream = web.begin("POST", batch);
    let call = server.expect("tools/call");
    server.answer(&call, &json!({}));
    let answers = Reply::read(stream).expect("an answer").message();
    let answers = answers.as_array().expect("a list").iter();
    let mut ids: Vec<Option<u64>> = answers.map(|one| one["id"].as_u64()).collect();
    ids.sort_unstable();
    assert_eq!(ids, [Some(1), Some(2)]);
    assert_eq!(web.send("POST", r#"[{"jsonrpc":"2.0","method":"notifications/x"}]"#).status, 202);
    let wrong = [
        "[]",
        r#"[{"jsonrpc":"2.0","id":1,"method":"initialize"}]"#,
        r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":1,"method":"ping"}]"#,
        r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},7]"#,
    ];
    for wrong in wrong {
        assert_eq!(web.send("POST", wrong).status, 400, "{wrong}");
    }
    let newer = stage.web().enter_with("2025-06-18", &json!({}));
    assert_eq!(newer.send("POST", r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#).status, 400);
}

#[test]
fn f3_line_breaks_in_a_body_do_not_reach_servers() {
    let stage = Stage::new(Sharing::All);
    let (web, mut server) = stage.both();
    let pretty = "{\r\n  \"jsonrpc\": \"2.0\",\n  \"method\": \"tools/call\",\n  \"params\": { \"x\": 1 },\n  \"id\": 5\n}\n";
    let stream = web.begin("POST", pretty);
    let call = server.expect("tools/call");
    assert_eq!(call["params"], json!({ "x": 1 }));
    server.answer(&call, &json!({}));
    assert_eq!(Reply::read(stream).expect("an answer").message()["id"], 5);
}

#[test]
fn one_connection_carries_many_requests() {
    let stage = Stage::new(Sharing::All);
    let (web, _server) = stage.both();
    let mut stream = web.connect();
    for id in 0..20 {
        let ping = web.text("POST", &request(&json!(id), "ping", &json!({})));
        std::io::Write::write_all(&mut stream, ping.as_bytes()).expect("a reading peer");
        let mut reply = Reply::read(stream).expect("an answer");
        assert_eq!(reply.message()["id"], id);
        stream = reply.into_stream();
    }
}
