//! Requests of servers to clients.

use ostler::keeper::Sharing;
use ostler_gateway::Route;
use serde_json::{Value, json};

use crate::stage::{Client, Stage};

const ELICIT: &str = r#"{"jsonrpc":"2.0","id":"q1","method":"elicitation/create","params":{"message":"?","x-keep":1.0}}"#;

fn enter(stage: &Stage, agent: Option<&str>, capabilities: &Value) -> Client {
    let mut client = stage.connect(agent, Route::One("puppet".into()));
    client.hello(capabilities);
    client
}

#[test]
fn s2_the_only_client_is_asked_and_its_answer_comes_back() {
    let stage = Stage::new(Sharing::Session);
    let mut client = enter(&stage, None, &json!({ "elicitation": {} }));
    let mut server = stage.puppet();
    let told = server.greet(&json!({}));
    assert_eq!(told["params"]["capabilities"], json!({ "elicitation": {} }));
    assert_eq!(
        told["params"]["clientInfo"]["name"], "test",
        "an exclusive instance knows its client"
    );
    client.welcome();
    client.ready();
    client.request(&json!(1), "tools/call", &json!({}));
    server.expect("tools/call");
    server.say(ELICIT);
    let asked = client.expect("elicitation/create");
    assert_eq!(asked["params"], json!({ "message": "?", "x-keep": 1.0 }));
    client.say(&format!(
        r#"{{"jsonrpc":"2.0","id":{},"result":{{"action":"accept"}}}}"#,
        asked["id"]
    ));
    assert_eq!(
        server.message(),
        json!({ "jsonrpc": "2.0", "id": "q1", "result": { "action": "accept" } })
    );
}

#[test]
fn s2_the_only_calling_client_is_asked_and_none_if_two_call() {
    let stage = Stage::new(Sharing::Agent);
    let capabilities = json!({ "elicitation": {} });
    let mut one = enter(&stage, Some("a"), &capabilities);
    let mut server = stage.server(&json!({}));
    one.welcome();
    let mut other = enter(&stage, Some("a"), &capabilities);
    other.welcome();
    other.request(&json!(1), "tools/call", &json!({}));
    let theirs = server.expect("tools/call");
    one.request(&json!(1), "tools/call", &json!({}));
    let mine = server.expect("tools/call");
    server.say(ELICIT);
    let refused = server.message();
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!("q1"), &json!(-32603)));
    server.answer(&theirs, &json!({}));
    assert_eq!(other.message()["id"], 1);
    server.say(ELICIT);
    one.expect("elicitation/create");
    server.answer(&mine, &json!({}));
    assert_eq!(one.message()["id"], 1);
    other.assert_silence();
}

#[test]
fn s3_a_client_without_the_capability_is_not_asked() {
    let stage = Stage::new(Sharing::Session);
    let mut client = enter(&stage, None, &json!({}));
    let mut server = stage.server(&json!({}));
    client.welcome();
    client.request(&json!(1), "tools/call", &json!({}));
    server.expect("tools/call");
    server.say(ELICIT);
    assert_eq!(server.message()["error"]["code"], -32601);
    client.assert_silence();
}

#[test]
fn s4_a_client_that_leaves_keeps_no_server_waiting() {
    let stage = Stage::new(Sharing::All);
    let mut client = enter(&stage, None, &json!({ "sampling": {} }));
    let mut server = stage.server(&json!({}));
    client.welcome();
    client.request(&json!(1), "tools/call", &json!({}));
    let call = server.expect("tools/call");
    server.say(r#"{"jsonrpc":"2.0","id":7,"method":"sampling/createMessage"}"#);
    client.expect("sampling/createMessage");
    drop(client);
    let (first, second) = (server.message(), server.message());
    let (cancelled, refused) =
        if first["method"].is_string() { (first, second) } else { (second, first) };
    assert_eq!(cancelled["params"]["requestId"], call["id"]);
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(7), &json!(-32603)));
}

#[test]
fn s4_a_cancelled_server_request_is_cancelled_at_the_client() {
    let stage = Stage::new(Sharing::Session);
    let mut client = enter(&stage, None, &json!({ "elicitation": {} }));
    let mut server = stage.server(&json!({}));
    client.welcome();
    client.request(&json!(1), "tools/call", &json!({}));
    server.expect("tools/call");
    server.say(ELICIT);
    let asked = client.expect("elicitation/create");
    server
        .say(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"q1"}}"#);
    let cancelled = client.expect("notifications/cancelled");
    assert_eq!(cancelled["params"]["requestId"], asked["id"]);
}

/// Servers build their lists from the client's capabilities: 13 tools for one client, 19 for another.
#[test]
fn k1_clients_share_an_instance_only_with_equal_capabilities() {
    let stage = Stage::new(Sharing::Agent);
    let able = enter(&stage, Some("a"), &json!({ "sampling": {} }));
    let mut first = stage.puppet();
    assert_eq!(first.greet(&json!({}))["params"]["capabilities"], json!({ "sampling": {} }));
    able.welcome();
    let plain = enter(&stage, Some("a"), &json!({}));
    let mut second = stage.puppet();
    assert_eq!(second.greet(&json!({}))["params"]["capabilities"], json!({}));
    plain.welcome();
    let mut like_the_first = enter(&stage, Some("a"), &json!({ "sampling": {} }));
    like_the_first.welcome();
    like_the_first.request(&json!(1), "tools/call", &json!({}));
    first.expect("tools/call");
    stage.assert_nothing_started();
}

#[test]
fn s3_forms_urls_and_tools_need_the_matching_capability() {
    let cases = [
        (json!({ "elicitation": {} }), "elicitation/create", json!({ "mode": "form" }), true),
        (json!({ "elicitation": {} }), "elicitation/create", json!({}), true),
        (json!({ "elicitation": {} }), "elicitation/create", json!({ "mode": "url" }), false),
        (json!({ "elicitation": { "url": {} } }), "elicitation/create", json!({}), false),
        (json!({ "sampling": {} }), "sampling/createMessage", json!({ "tools": [] }), false),
        (
            json!({ "sampling": { "tools": {} } }),
            "sampling/createMessage",
            json!({ "tools": [] }),
            true,
        ),
    ];
    for (capabilities, method, params, is_asked) in cases {
        let stage = Stage::new(Sharing::Session);
        let mut client = enter(&stage, None, &capabilities);
        let mut server = stage.server(&json!({}));
        client.welcome();
        client.request(&json!(1), "tools/call", &json!({}));
        server.expect("tools/call");
        let request = json!({ "jsonrpc": "2.0", "id": 5, "method": method, "params": params });
        server.say(&request.to_string());
        if is_asked {
            client.expect(method);
        } else {
            assert_eq!(server.message()["error"]["code"], -32602, "{params}");
            client.assert_silence();
        }
    }
}

#[test]
fn s8_the_completion_of_an_elicitation_goes_to_the_client_that_was_asked() {
    let stage = Stage::new(Sharing::All);
    let capabilities = json!({ "elicitation": { "url": {} } });
    let mut one = enter(&stage, None, &capabilities);
    let mut server = stage.server(&json!({}));
    one.welcome();
    one.ready();
    let mut other = stage.client();
    other.enter();
    one.request(&json!(1), "tools/call", &json!({}));
    let first = server.expect("tools/call");
    other.request(&json!(1), "tools/call", &json!({}));
    let second = server.expect("tools/call");
    // The server refuses with the URL of an elicitation.
    let data = json!({ "elicitations": [{ "mode": "url", "elicitationId": "e1", "url": "x:" }] });
    let error = json!({ "code": -32042, "message": "elsewhere", "data": data });
    server.say(&json!({ "jsonrpc": "2.0", "id": first["id"], "error": error }).to_string());
    assert_eq!(one.message()["error"]["data"], data);
    server.say(r#"{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":"e1"}}"#);
    one.expect("notifications/elicitation/complete");
    // No other client, and only once.
    server.say(r#"{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":"e1"}}"#);
    server.answer(&second, &json!({}));
    assert_eq!(other.message()["id"], 1);
    other.assert_silence();
    one.assert_silence();
}

#[test]
fn k3_a_shared_server_does_not_offer_tasks() {
    let tasks = json!({ "tasks": { "list": {} }, "tools": {} });
    let cases = [
        (Sharing::Agent, Some("a"), false),
        (Sharing::Agent, None, true),
        (Sharing::All, None, false),
        (Sharing::Session, None, true),
    ];
    for (sharing, agent, is_offered) in cases {
        let stage = Stage::new(sharing);
        let mut client = enter(&stage, agent, &json!({}));
        let mut server = stage.server(&tasks);
        let welcome = client.welcome();
        assert_eq!(welcome["capabilities"]["tasks"].is_object(), is_offered);
        client.ready();
        let list = server.expect("tools/list");
        server.answer(&list, &json!({ "tools": [] }));
        client.request(&json!(1), "tasks/list", &json!({}));
        if is_offered {
            server.expect("tasks/list");
        } else {
            assert_eq!(client.message()["error"]["code"], -32601);
            client.request(&json!(2), "tools/call", &json!({ "name": "t", "task": {} }));
            assert_eq!(client.message()["error"]["code"], -32601);
        }
    }
}

#[test]
fn s6_changed_roots_are_announced_to_every_unshared_server() {
    let told = r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#;
    let stage = Stage::with(&["one", "two"], |server| server.sharing = Sharing::Session);
    let mut client = stage.client_of_all();
    client.enter();
    let mut servers = ["one", "two"].map(|name| {
        let call = json!({ "name": format!("{name}__t"), "arguments": {} });
        client.request(&json!(name), "tools/call", &call);
        let mut server = stage.puppets[name].next();
        server.greet(&json!({ "tools": {} }));
        let list = server.expect("tools/list");
        server.answer(&list, &json!({ "tools": [{ "name": "t" }] }));
        let call = server.expect("tools/call");
        server.answer(&call, &json!({}));
        assert_eq!(client.message()["id"], name);
        server
    });
    client.say(told);
    // Several servers could be meant by this notification.
    client.say(r#"{"jsonrpc":"2.0","method":"notifications/vendor"}"#);
    client.assert_silence();
    drop(client);
    for server in &mut servers {
        assert_eq!(server.line(), told);
        assert!(server.has_ended());
    }
}
