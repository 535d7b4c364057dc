//! Keys that two JSON parsers may read in different ways: they mean one thing, or the message is refused.

use ostler::keeper::Sharing;
use ostler_gateway::Tools;
use ostler_testkit::Puppet;
use serde_json::{Value, json};

use crate::stage::{Client, Stage};

/// A client of the only server, after its handshake.
fn enter(stage: &Stage) -> (Client, Puppet) {
    let mut client = stage.client();
    client.hello(&json!({}));
    let server = stage.server(&json!({}));
    client.welcome();
    client.ready();
    (client, server)
}

/// Expects an error with this code that names the key, and that the server gets nothing.
fn assert_refused(client: &mut Client, server: &mut Puppet, line: &str, code: i32, key: &str) {
    client.say(line);
    let refused = client.message();
    assert_eq!(refused["error"]["code"], code, "{line}\n{refused}");
    let text = refused["error"]["message"].as_str().unwrap_or_default();
    assert!(text.contains(&format!("`{key}`")), "{line}\n{refused}");
    client.request(&json!("next"), "tools/call", &json!({ "name": "safe" }));
    let next = server.expect("tools/call");
    assert_eq!(next["params"], json!({ "name": "safe" }), "{line}");
    server.answer(&next, &json!({}));
    assert_eq!(client.message()["id"], "next");
}

fn call(params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{params}}}"#)
}

#[test]
fn a_denied_tool_can_not_be_called_by_a_second_name() {
    let tools = Tools { allow: None, deny: ["danger"].into_iter().collect() };
    let stage = Stage::offering(&["puppet"], |server| server.sharing = Sharing::All, &tools);
    let (mut client, mut server) = enter(&stage);
    for params in [
        r#"{"name":"safe","Name":"danger"}"#,
        r#"{"NAME":"danger","name":"safe"}"#,
        r#"{"name":"safe","name":"danger"}"#,
        r#"{"name":"safe","n\u0061me":"danger"}"#,
        r#"{"name":"safe","\u004eame":"danger"}"#,
        r#"{"name":"safe","_name":"danger"}"#,
        r#"{"name":"safe","name\u0000":"danger"}"#,
        r#"{"name":"safe","name\ud800":"danger"}"#,
        r#"{"Name":"danger"}"#,
    ] {
        assert_refused(&mut client, &mut server, &call(params), -32602, "name");
    }
}

#[test]
fn duplicate_or_misspelled_keys_that_a_rule_reads_are_refused() {
    let stage = Stage::new(Sharing::All);
    let (mut client, mut server) = enter(&stage);
    for (method, params, key) in [
        ("tools/call", r#"{"name":"safe","arguments":{},"Arguments":{}}"#, "arguments"),
        ("tools/call", r#"{"name":"safe","_Meta":{"progressToken":1}}"#, "_meta"),
        ("tools/call", r#"{"name":"safe","meta":{"progressToken":1}}"#, "_meta"),
        ("tools/call", r#"{"name":"safe","_meta":{},"_meta":{"progressToken":1}}"#, "_meta"),
        ("tools/call", r#"{"name":"safe","_meta":{"progreſsToken":1}}"#, "progressToken"),
        ("tools/call", r#"{"name":"safe","_meta":{"progressTo\u212aen":1}}"#, "progressToken"),
        ("tools/call", r#"{"name":"safe","_meta":{"progress_token":1}}"#, "progressToken"),
        ("tools/call", r#"{"name":"safe","ta\u017fk":{}}"#, "task"),
        ("tools/call", r#"{"name":"safe","TASK":{}}"#, "task"),
        ("vendor/method", r#"{"_META":{"progressToken":1}}"#, "_meta"),
        ("prompts/get", r#"{"name":"a","Name":"b"}"#, "name"),
        ("resources/read", r#"{"uri":"a:1","URI":"b:1"}"#, "uri"),
        ("resources/subscribe", r#"{"uri":"a:1","uri":"b:1"}"#, "uri"),
        ("completion/complete", r#"{"ref":{"name":"a","Name":"b"}}"#, "name"),
        ("completion/complete", r#"{"ref":{"uri":"a:","uRi":"b:"}}"#, "uri"),
        ("completion/complete", r#"{"ref":{"name":"a"},"Ref":{"name":"b"}}"#, "ref"),
        ("tools/list", r#"{"cursor":"a","Cursor":"b"}"#, "cursor"),
        ("logging/setLevel", r#"{"level":"debug","Level":"error"}"#, "level"),
    ] {
        let line = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"{method}","params":{params}}}"#);
        assert_refused(&mut client, &mut server, &line, -32602, key);
    }
}

#[test]
fn duplicate_or_misspelled_keys_of_the_envelope_are_refused() {
    let stage = Stage::new(Sharing::All);
    let (mut client, mut server) = enter(&stage);
    for (line, key) in [
        (r#"{"jsonrpc":"2.0","id":7,"ID":1,"method":"tools/call"}"#, "id"),
        (r#"{"jsonrpc":"2.0","Id":1,"id":7,"method":"tools/call"}"#, "id"),
        (r#"{"jsonrpc":"2.0","id":7,"i\u0064":1,"method":"tools/call"}"#, "id"),
        (r#"{"jsonrpc":"2.0","ID":1,"method":"tools/call"}"#, "id"),
        (r#"{"jsonrpc":"2.0","id":7,"method":"ping","METHOD":"tools/call"}"#, "method"),
        (r#"{"jsonrpc":"2.0","id":7,"method":"ping","method\u0000":"tools/call"}"#, "method"),
        (r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{},"paramſ":{}}"#, "params"),
        (r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","Result":{}}"#, "result"),
        (r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","ERROR":{}}"#, "error"),
        (r#"{"jsonrpc":"2.0","JSONRPC":"1.0","id":7,"method":"tools/call"}"#, "jsonrpc"),
    ] {
        assert_refused(&mut client, &mut server, line, -32600, key);
    }
}

#[test]
fn arguments_and_results_are_not_inspected() {
    let stage = Stage::new(Sharing::All);
    let (mut client, mut server) = enter(&stage);
    let opaque =
        r#"{"name":1,"Name":2,"name":3,"_meta":{"progressToken":1,"PROGRESSTOKEN":2},"ID":1}"#;
    let params = format!(
        r#"{{"name":"safe","arguments":{opaque},"inputResponses":{opaque},"_meta":{{"x":{opaque}}}}}"#
    );
    client.say(&call(&params));
    let line = server.line();
    assert!(line.contains(&params), "{line}");
    let id = serde_json::from_str::<Value>(&line).expect("JSON")["id"].clone();
    server.say(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{opaque}}}"#));
    assert_eq!(client.line(), format!(r#"{{"jsonrpc":"2.0","id":7,"result":{opaque}}}"#));
}

#[test]
fn parameters_have_to_be_an_object() {
    let stage = Stage::new(Sharing::All);
    let (mut client, mut server) = enter(&stage);
    for params in [r#"[{"name":"safe","_meta":{"progressToken":1}}]"#, r#""safe""#, "7", "true"] {
        assert_refused(&mut client, &mut server, &call(params), -32602, "params");
    }
    client.say(&call("null"));
    server.expect("tools/call");
}

#[test]
fn p1_a_progress_token_is_replaced_in_any_notation_of_its_key() {
    let stage = Stage::new(Sharing::All);
    let (mut client, mut server) = enter(&stage);
    for (id, meta) in [
        r#""_meta":{"progressT\u006fken":"mine"}"#,
        r#""\u005fmeta":{"progressToken":"mine"}"#,
        r#""_m\u0065ta":{"\u0070rogressToken" : "mine"}"#,
        r#""_meta":{"x":1,"\ud83d\ude00":1,"progressToken":"mine"}"#,
    ]
    .iter()
    .enumerate()
    {
        client.say(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{{meta}}}}}"#
        ));
        let request = server.expect("tools/call");
        assert_eq!(request["params"]["_meta"]["progressToken"], request["id"], "{meta}");
        server.say(&format!(
            r#"{{"jsonrpc":"2.0","method":"notifications\/progress","params":{{"progressT\u006fken":{},"progress":1}}}}"#,
            request["id"]
        ));
        let progress = client.expect("notifications/progress");
        assert_eq!(progress["params"], json!({ "progressToken": "mine", "progress": 1 }));
        server.answer(&request, &json!({}));
        assert_eq!(client.message()["id"], id);
    }
}

#[test]
fn k3_a_task_is_withheld_in_any_notation_of_its_key() {
    let stage = Stage::new(Sharing::All);
    let (mut client, mut server) = enter(&stage);
    for params in [r#"{"name":"t","t\u0061sk":{}}"#, r#"{"name":"t","\u0074\u0061sk":{}}"#] {
        client.say(&call(params));
        let refused = client.message();
        assert_eq!(refused["error"]["code"], -32601, "{params}: {refused}");
    }
    // A key that many parsers can't represent does not hide later keys.
    client.say(&call(r#"{"\ud800":1,"name":"t","task":{}}"#));
    let refused = client.message();
    assert!(refused["error"]["code"].is_number(), "{refused}");
    client.request(&json!(8), "tools/call", &json!({ "name": "t" }));
    assert_eq!(server.expect("tools/call")["params"], json!({ "name": "t" }));
}

#[test]
fn c1_a_cancellation_is_recognised_in_any_notation() {
    let stage = Stage::new(Sharing::All);
    let (mut client, mut server) = enter(&stage);
    for (id, cancelled) in [
        ("\"x\"", r#"{"request\u0049d":"x"}"#),
        ("\"x\"", r#"{"requestId":"\u0078"}"#),
        ("\"\\u0078\"", r#"{"requestId":"x"}"#),
    ] {
        client.say(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call"}}"#));
        let request = server.expect("tools/call");
        client.say(&format!(
            r#"{{"jsonrpc":"2.0","m\u0065thod":"notifications\/cancelled","params":{cancelled}}}"#
        ));
        let told = server.expect("notifications/cancelled");
        assert_eq!(told["params"]["requestId"], request["id"], "{cancelled}");
        client.assert_silence();
    }
}

/// A token that is not replaced could be the number of another client's call.
#[test]
fn no_token_of_a_client_reaches_a_server_as_it_was_written() {
    let stage = Stage::new(Sharing::All);
    let (mut victim, mut server) = enter(&stage);
    let mut attacker = stage.client();
    attacker.enter();
    victim.request(&json!(1), "tools/call", &json!({ "_meta": { "progressToken": "mine" } }));
    let number = server.expect("tools/call")["id"].clone();
    let attempts = [
        format!(r#"{{"_meta":{{"progressT\u006fken":{number}}}}}"#),
        format!(r#"{{"_meta":{{"ProgressToken":{number}}}}}"#),
        format!(r#"{{"_Meta":{{"progressToken":{number}}}}}"#),
        format!(r#"{{"_meta":{{"\ud800":1,"progressToken":{number}}}}}"#),
        format!(r#"[{{"_meta":{{"progressToken":{number}}}}}]"#),
    ];
    for (id, params) in attempts.iter().enumerate() {
        attacker.say(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#
        ));
    }
    attacker.request(&json!("end"), "tools/call", &json!({}));
    loop {
        // Our own parser would stop at half of a surrogate pair.
        let told: Value =
            serde_json::from_str(&server.line().replace("\\ud800", "x")).expect("JSON");
        if told["params"] == json!({}) {
            break;
        }
        assert_eq!(told["params"]["_meta"]["progressToken"], told["id"], "{told}");
    }
}
