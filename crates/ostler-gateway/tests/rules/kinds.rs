//! Requests named like notifications, notifications named like requests, and responses without a request.

use ostler::keeper::Sharing;
use ostler_gateway::{Route, Tools};
use ostler_testkit::Puppet;
use serde_json::json;

use crate::stage::{Client, Stage};

/// A client of the only server, with all capabilities, after its handshake.
fn enter(stage: &Stage) -> (Client, Puppet) {
    let mut client = stage.connect(None, Route::One("puppet".into()));
    client.hello(&json!({ "roots": {}, "elicitation": {} }));
    let server = stage.server(&json!({}));
    client.welcome();
    client.ready();
    (client, server)
}

/// Expects that the server's next message is this call.
fn assert_next(client: &mut Client, server: &mut Puppet, id: &str) {
    client.request(&json!(id), "tools/call", &json!({ "name": id }));
    let call = server.message();
    assert_eq!(call["params"]["name"], id, "{call}");
    server.answer(&call, &json!({}));
    assert_eq!(client.message()["id"], id);
}

#[test]
fn a_request_named_like_a_notification_is_refused() {
    for sharing in [Sharing::All, Sharing::Session] {
        let stage = Stage::new(sharing);
        let (mut client, mut server) = enter(&stage);
        for method in [
            "notifications/cancelled",
            "notifications\\/cancelled",
            "notifications/initialized",
            "notifications/progress",
            "notifications/vendor",
        ] {
            client.say(&format!(
                r#"{{"jsonrpc":"2.0","id":7,"method":"{method}","params":{{"requestId":1}}}}"#
            ));
            let refused = client.message();
            assert_eq!(refused["id"], 7, "{refused}");
            assert_eq!(refused["error"]["code"], -32600, "{refused}");
            assert_next(&mut client, &mut server, method);
        }
    }
}

#[test]
fn a_notification_named_like_a_request_is_dropped() {
    let tools = Tools { allow: None, deny: ["danger"].into_iter().collect() };
    let own = |server: &mut ostler::keeper::Server| server.sharing = Sharing::Session;
    let stage = Stage::offering(&["puppet"], own, &tools);
    let (mut client, mut server) = enter(&stage);
    assert_next(&mut client, &mut server, "first");
    for method in ["tools/call", "initialize", "logging/setLevel", "resources/subscribe", "vendor"]
    {
        client.say(&format!(
            r#"{{"jsonrpc":"2.0","method":"{method}","params":{{"name":"danger","uri":"a:"}}}}"#
        ));
        assert_next(&mut client, &mut server, method);
    }
    // Vendor notifications reach an unshared server.
    let vendor = r#"{"jsonrpc":"2.0","method":"notifications/vendor","params":{"x":1}}"#;
    client.say(vendor);
    assert_eq!(server.line(), vendor);
}

#[test]
fn a_second_handshake_is_refused() {
    let stage = Stage::new(Sharing::Session);
    let (mut client, mut server) = enter(&stage);
    client.hello(&json!({}));
    assert_eq!(client.message()["error"]["code"], -32600);
    assert_next(&mut client, &mut server, "next");
}

#[test]
fn a_response_without_a_request_is_dropped() {
    let stage = Stage::new(Sharing::Session);
    let (mut client, mut server) = enter(&stage);
    assert_next(&mut client, &mut server, "first");
    for id in ["1", "\"1\"", "null", "-1", "18446744073709551616"] {
        client.say(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
    }
    assert_next(&mut client, &mut server, "next");
}

/// A client would respond, and the id of the response could match a request of another server.
#[test]
fn a_server_request_named_like_a_notification_is_refused() {
    let stage = Stage::new(Sharing::Session);
    let (mut client, mut server) = enter(&stage);
    assert_next(&mut client, &mut server, "first");
    for method in [
        "notifications/message",
        "notifications/vendor",
        "notifications/tools/list_changed",
        "notifications/resources/updated",
        "notifications/progress",
        "notifications/cancelled",
    ] {
        server.say(&format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{"level":"error"}}}}"#
        ));
        let refused = server.message();
        assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(1), &json!(-32600)));
    }
    client.assert_silence();
}

#[test]
fn a_server_notification_named_like_a_request_is_dropped() {
    let stage = Stage::new(Sharing::Session);
    let (mut client, mut server) = enter(&stage);
    assert_next(&mut client, &mut server, "first");
    for method in ["elicitation/create", "roots/list", "ping", "vendor"] {
        server.say(&format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{{}}}}"#));
    }
    let vendor = r#"{"jsonrpc":"2.0","method":"notifications/vendor","params":{"x":1}}"#;
    server.say(vendor);
    assert_eq!(client.line(), vendor);
}

#[test]
fn ambiguous_server_messages_are_not_forwarded() {
    let stage = Stage::new(Sharing::Session);
    let (mut client, mut server) = enter(&stage);
    client.request(&json!(1), "tools/call", &json!({ "_meta": { "progressToken": "mine" } }));
    let call = server.expect("tools/call");
    let id = &call["id"];
    for line in [
        format!(r#"{{"jsonrpc":"2.0","id":{id},"ID":77,"result":{{}}}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}},"Result":{{}}}}"#),
        r#"{"jsonrpc":"2.0","method":"notifications/vendor","Method":"ping","ID":1}"#.to_owned(),
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{id},"ProgressToken":1}}}}"#
        ),
        r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","Level":"debug"}}"#
            .to_owned(),
        r#"{"jsonrpc":"2.0","method":"notifications/vendor","params":[1]}"#.to_owned(),
    ] {
        server.say(&line);
    }
    for params in
        [r#"{"mode":"form","Mode":"url"}"#, r#"{"elicitationId":"a","elicitationId":"b"}"#]
    {
        server.say(&format!(
            r#"{{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{params}}}"#
        ));
        assert_eq!(server.message()["error"]["code"], -32602, "{params}");
    }
    server.answer(&call, &json!({}));
    assert_eq!(client.message(), json!({ "jsonrpc": "2.0", "id": 1, "result": {} }));
    client.assert_silence();
}
