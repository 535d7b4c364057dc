//! Transparency: a client gets the same messages as from the server itself.

use ostler::keeper::Sharing;
use ostler_testkit::Puppet;
use serde_json::{Value, json};

use crate::stage::{Client, Stage};

/// Completes the server's part of the handshake with these members in its result.
fn greet(server: &mut Puppet, said: &Value) {
    let initialize = server.expect("initialize");
    let mut result = json!({
        "protocolVersion": "2025-11-25", "capabilities": {},
        "serverInfo": { "name": "puppet", "version": "1" },
    });
    for (name, value) in said.as_object().into_iter().flatten() {
        result[name] = value.clone();
    }
    server.answer(&initialize, &result);
    server.expect("notifications/initialized");
}

/// A client of the only server, which returns these members in its handshake.
fn enter(stage: &Stage, said: &Value) -> (Client, Puppet) {
    let mut client = stage.client();
    client.hello(&json!({}));
    let mut server = stage.puppet();
    greet(&mut server, said);
    client.welcome();
    client.ready();
    (client, server)
}

/// The error code of the answer to a request.
fn code(client: &mut Client, method: &str, params: &Value) -> Value {
    client.request(&json!("code"), method, params);
    let answer = client.message();
    assert_eq!(answer["id"], "code", "{answer}");
    answer["error"]["code"].clone()
}

#[test]
fn a_task_request_goes_to_the_server_that_runs_the_task() {
    let stage = Stage::with(&["a", "b"], |server| server.sharing = Sharing::Session);
    let mut client = stage.client_of_all();
    client.enter();
    let call = json!({ "name": "b__t", "arguments": {}, "task": { "ttl": 1000 } });
    client.request(&json!(1), "tools/call", &call);
    let mut server = stage.puppets["b"].next();
    let tasks = json!({ "list": {}, "cancel": {}, "requests": { "tools": { "call": {} } } });
    greet(&mut server, &json!({ "capabilities": { "tools": {}, "tasks": tasks } }));
    let list = server.expect("tools/list");
    server.answer(&list, &json!({ "tools": [{ "name": "t" }] }));
    let call = server.expect("tools/call");
    assert_eq!(call["params"], json!({ "name": "t", "arguments": {}, "task": { "ttl": 1000 } }));
    server.answer(&call, &json!({ "task": { "taskId": "T1", "status": "working" } }));
    assert_eq!(client.message()["result"]["task"]["taskId"], "T1");
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        client.request(&json!(2), method, &json!({ "taskId": "T1" }));
        let asked = server.expect(method);
        assert_eq!(asked["params"], json!({ "taskId": "T1" }));
        server.answer(&asked, &json!({ "taskId": "T1" }));
        assert_eq!(client.message()["result"], json!({ "taskId": "T1" }), "{method}");
    }
    assert_eq!(code(&mut client, "tasks/get", &json!({ "taskId": "other" })), -32602);
    assert_eq!(code(&mut client, "tasks/list", &json!({})), -32601);
    let offered = stage.client_of_all().enter()["capabilities"]["tasks"].clone();
    assert_eq!(offered, json!({ "cancel": {}, "requests": { "tools": { "call": {} } } }));
}

#[test]
fn clients_of_all_servers_get_the_same_error_for_a_dead_server() {
    let stage = Stage::with(&["broken"], |server| {
        server.spec_mut().unwrap().program = "no-such-program".into();
    });
    let mut own = stage.client();
    own.hello(&json!({}));
    let direct = own.message()["error"].clone();
    let mut all = stage.client_of_all();
    all.enter();
    all.request(&json!(1), "tools/call", &json!({ "name": "broken__t" }));
    let told = all.message()["error"].clone();
    assert_eq!(direct["code"], -32603, "{direct}");
    assert_eq!((&told["code"], &told["data"]), (&direct["code"], &direct["data"]), "{told}");
    assert!(told["message"].as_str().unwrap().contains("command not found"), "{told}");
}

#[test]
fn instructions_of_all_servers_are_passed_on() {
    let stage = Stage::with(&["a", "b", "c"], |server| server.sharing = Sharing::All);
    let mut client = stage.client_of_all();
    assert_eq!(client.enter()["instructions"], Value::Null);
    client.request(&json!(1), "tools/list", &json!({}));
    for (name, said) in [
        ("a", json!({ "instructions": "Ask first." })),
        ("b", json!({})),
        ("c", json!({ "instructions": "Be brief.\nAlways." })),
    ] {
        greet(&mut stage.puppets[name].next(), &said);
    }
    client.message();
    let told = stage.client_of_all().enter()["instructions"].clone();
    assert_eq!(told, "# a\n\nAsk first.\n\n# c\n\nBe brief.\nAlways.\n");
}

#[test]
fn a_server_without_logging_refuses_set_level() {
    let level = json!({ "level": "info" });
    let stage = Stage::new(Sharing::Session);
    let (mut client, _server) = enter(&stage, &json!({}));
    assert_eq!(code(&mut client, "logging/setLevel", &level), -32601);
    let mut all = stage.client_of_all();
    assert_eq!(all.enter()["capabilities"]["logging"], Value::Null);
    assert_eq!(code(&mut all, "logging/setLevel", &level), -32601);
    let stage = Stage::new(Sharing::Session);
    let (mut client, _server) = enter(&stage, &json!({ "capabilities": { "logging": {} } }));
    assert_eq!(code(&mut client, "logging/setLevel", &level), Value::Null);
    let mut all = stage.client_of_all();
    assert!(all.enter()["capabilities"]["logging"].is_object());
    assert_eq!(code(&mut all, "logging/setLevel", &level), Value::Null);
}

#[test]
fn the_version_of_a_server_is_not_raised() {
    for (server_has, client_asks, agreed) in [
        ("2024-11-05", "2025-11-25", "2024-11-05"),
        ("2025-06-18", "2025-11-25", "2025-06-18"),
        ("2025-11-25", "2025-03-26", "2025-03-26"),
        ("2024-11-05", "2024-11-05", "2024-11-05"),
    ] {
        let stage = Stage::new(Sharing::All);
        let params = json!({ "protocolVersion": client_asks, "capabilities": {},
            "clientInfo": { "name": "test", "version": "1" } });
        // The first response comes from the server, the second from the catalog.
        let mut first = stage.client();
        first.request(&json!(0), "initialize", &params);
        let mut server = stage.puppet();
        greet(&mut server, &json!({ "protocolVersion": server_has }));
        assert_eq!(first.welcome()["protocolVersion"], agreed);
        let mut second = stage.client();
        second.request(&json!(0), "initialize", &params);
        assert_eq!(second.welcome()["protocolVersion"], agreed);
    }
}

#[test]
fn batches_belong_to_the_version_that_was_agreed_upon() {
    let stage = Stage::new(Sharing::Session);
    let (mut client, _server) = enter(&stage, &json!({ "protocolVersion": "2025-03-26" }));
    client.say(r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#);
    assert_eq!(client.message(), json!([{ "jsonrpc": "2.0", "id": 1, "result": {} }]));
}
