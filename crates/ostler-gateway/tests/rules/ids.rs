//! Ids, progress tokens and payloads: ids and tokens are replaced, payloads stay unchanged.

use ostler::keeper::Sharing;
use serde_json::json;

use crate::stage::{Client, Stage};

/// Two clients of one instance.
fn two(stage: &Stage) -> (Client, Client, ostler_testkit::Puppet) {
    let mut one = stage.client();
    one.hello(&json!({}));
    let server = stage.server(&json!({}));
    one.welcome();
    let mut other = stage.client();
    other.enter();
    (one, other, server)
}

#[test]
fn i1_the_same_id_in_two_sessions_reaches_the_right_one() {
    let stage = Stage::new(Sharing::All);
    let (mut one, mut other, mut server) = two(&stage);
    one.request(&json!(1), "tools/call", &json!({ "who": "one" }));
    let first = server.expect("tools/call");
    other.request(&json!(1), "tools/call", &json!({ "who": "other" }));
    let second = server.expect("tools/call");
    assert_ne!(first["id"], second["id"]);
    server.answer(&second, &second["params"].clone());
    server.answer(&first, &first["params"].clone());
    assert_eq!(one.line(), r#"{"id":1,"jsonrpc":"2.0","result":{"who":"one"}}"#);
    assert_eq!(other.line(), r#"{"id":1,"jsonrpc":"2.0","result":{"who":"other"}}"#);
}

#[test]
fn i1_a_number_and_a_text_are_different_ids() {
    let stage = Stage::new(Sharing::All);
    let (mut client, _other, mut server) = two(&stage);
    client.request(&json!(1), "tools/call", &json!({}));
    client.request(&json!("1"), "tools/call", &json!({}));
    let (number, text) = (server.expect("tools/call"), server.expect("tools/call"));
    server.answer(&text, &json!("text"));
    server.answer(&number, &json!("number"));
    assert_eq!(client.message(), json!({ "jsonrpc": "2.0", "id": "1", "result": "text" }));
    assert_eq!(client.message(), json!({ "jsonrpc": "2.0", "id": 1, "result": "number" }));
}

#[test]
fn i1_an_id_in_flight_or_null_is_refused() {
    let stage = Stage::new(Sharing::All);
    let (mut client, _other, mut server) = two(&stage);
    client.request(&json!(5), "tools/call", &json!({}));
    let request = server.expect("tools/call");
    client.request(&json!(5), "tools/call", &json!({}));
    assert_eq!(client.message()["error"]["code"], -32600);
    for id in [json!(null), json!(1.5), json!(1e3)] {
        client.request(&id, "tools/call", &json!({}));
        assert_eq!(client.message()["error"]["code"], -32600, "{id}");
    }
    client.say("this is not JSON");
    assert_eq!(client.message()["error"]["code"], -32700);
    server.answer(&request, &json!({}));
    assert_eq!(client.message()["id"], 5);
}

#[test]
fn f2_all_bytes_but_the_id_are_unchanged() {
    let stage = Stage::new(Sharing::All);
    let (mut client, _other, mut server) = two(&stage);
    let rest = r#""method":"tools/call","vendor":[ 1.50 , 1e400],"params":{"n":123456789012345678901234567890,"s":"\ud800\u0000é","id":9,"_meta":{"x":1}}"#;
    client.say(&format!(r#"{{ "id" : 77 ,{rest}}}"#));
    let line = server.line();
    let id = line.split([':', ',']).nth(1).map(str::trim).unwrap_or_default();
    assert_eq!(line, format!(r#"{{ "id" : {id} ,{rest}}}"#));
    // The id last, as some servers write it.
    let answer = r#""result":{"big":-0.0,"s":"\udfff","unknown":{"deep":[[[]]]}}, "jsonrpc":"2.0""#;
    server.say(&format!("{{{answer},\"id\":{id}}}"));
    assert_eq!(client.line(), format!("{{{answer},\"id\":77}}"));
}

#[test]
fn i2_our_id_is_recognised_in_other_forms_and_unknown_ids_are_dropped() {
    let stage = Stage::new(Sharing::All);
    let (mut client, _other, mut server) = two(&stage);
    client.request(&json!(1), "tools/call", &json!({}));
    let request = server.expect("tools/call");
    server.say(r#"{"jsonrpc":"2.0","id":999999,"result":{}}"#);
    server.say(&format!(r#"{{"jsonrpc":"2.0","id":"{}","result":{{}}}}"#, request["id"]));
    assert_eq!(client.message()["id"], 1);
    client.assert_silence();
}

#[test]
fn p1_progress_comes_under_the_clients_own_token_in_order_and_before_the_answer() {
    let stage = Stage::new(Sharing::All);
    let (mut client, mut other, mut server) = two(&stage);
    let params = json!({ "_meta": { "progressToken": "mine" } });
    client.request(&json!(1), "tools/call", &params);
    let request = server.expect("tools/call");
    let token = &request["params"]["_meta"]["progressToken"];
    for step in 0..500 {
        server.say(&format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":{step}}}}}"#
        ));
    }
    server.answer(&request, &json!({}));
    for step in 0..500 {
        let progress = client.expect("notifications/progress");
        assert_eq!(progress["params"], json!({ "progressToken": "mine", "progress": step }));
    }
    assert_eq!(client.message()["id"], 1);
    // The request was already answered.
    server.say(&format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":501}}}}"#
    ));
    client.assert_silence();
    other.assert_silence();
}

#[test]
fn f2_a_method_is_recognised_in_any_notation() {
    let stage = Stage::new(Sharing::All);
    let mut client = stage.client();
    client.hello(&json!({}));
    let mut server = stage.server(&json!({ "logging": {} }));
    client.welcome();
    client.say(r#"{"jsonrpc":"2.0","method":"notifications\/initialized"}"#);
    client
        .say(r#"{"jsonrpc":"2.0","id":1,"method":"logging\/setLevel","params":{"level":"error"}}"#);
    assert_eq!(client.message()["result"], json!({}));
    let call = r#"{"jsonrpc":"2.0","id":7,"method":"tools\/call","params":{"_meta":{"progressToken":"p"}}}"#;
    client.say(call);
    let mut line = server.line();
    while line.contains("logging/setLevel") {
        line = server.line();
    }
    assert!(line.contains(r#""method":"tools\/call""#), "{line}");
    let request: serde_json::Value = serde_json::from_str(&line).unwrap();
    let token = &request["params"]["_meta"]["progressToken"];
    server.say(&format!(
        r#"{{"jsonrpc":"2.0","method":"notifications\/progress","params":{{"progressToken":{token},"progress":1}}}}"#
    ));
    assert_eq!(client.expect("notifications/progress")["params"]["progressToken"], "p");
}
