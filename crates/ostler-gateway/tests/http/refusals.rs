//! Invalid requests and the errors for them.

use ostler::keeper::Sharing;
use ostler_testkit::web::{Web, hello, request};
use serde_json::json;

use crate::stage::Stage;

fn ping() -> String {
    request(&json!(1), "ping", &json!({}))
}

fn expect(web: &Web, method: &str, body: &str, status: u16, code: i32) {
    let mut reply = web.send(method, body);
    assert_eq!(reply.status, status, "{method} {body}");
    let error = reply.message();
    assert_eq!(
        (&error["jsonrpc"], &error["error"]["code"]),
        (&json!("2.0"), &json!(code)),
        "{error}"
    );
}

/// The gateway checks host, origin and token before it looks at the rest of a request.
#[test]
fn h1_an_unauthenticated_client_learns_nothing() {
    let stage = Stage::new(Sharing::All);
    let foreign = [
        (stage.web().with("Host", "evil.example"), 403),
        (stage.web().without("Host"), 403),
        (stage.web().with("Origin", "http://evil.example"), 403),
        (stage.web().with("Origin", "null"), 403),
        (stage.web().without("Authorization"), 401),
        (stage.web().with("Authorization", "Bearer wrong"), 401),
        (stage.web().with("Authorization", "Basic wrong"), 401),
    ];
    for (web, status) in foreign {
        for (path, method, body) in [
            ("/mcp/puppet", "POST", hello("2025-11-25", &json!({}))),
            ("/nothing", "PUT", "{".into()),
        ] {
            let web = Web { path: path.into(), ..web.clone() };
            expect(&web, method, &body, status, -32600);
        }
    }
    let unknown = stage.web().without("Authorization").send("POST", "");
    assert_eq!(unknown.header("www-authenticate"), Some("Bearer"));
    assert!(stage.puppets["puppet"].is_idle());
    assert_eq!(stage.gateway.router().clients(), 0);
}

#[test]
fn h1_a_page_of_this_machine_may_speak_with_it() {
    let stage = Stage::new(Sharing::All);
    let (web, _server) = stage.both();
    let page = web.with("Origin", "http://localhost:3000").with("Host", "localhost");
    assert_eq!(page.send("POST", &ping()).status, 200);
}

#[test]
fn h1_the_headers_of_a_message_are_checked() {
    let stage = Stage::new(Sharing::All);
    let (web, _server) = stage.both();
    let type_of = |kind: &str| web.clone().with("Content-Type", kind);
    expect(&type_of("text/plain"), "POST", &ping(), 415, -32600);
    expect(&web.clone().without("Content-Type"), "POST", &ping(), 415, -32600);
    assert_eq!(type_of("Application/JSON; charset=utf-8").send("POST", &ping()).status, 200);
    let accepting = |kinds: &str| web.clone().with("Accept", kinds);
    expect(&accepting("application/json"), "POST", &ping(), 406, -32600);
    expect(&accepting("text/event-stream"), "POST", &ping(), 406, -32600);
    expect(&web.clone().without("Accept"), "POST", &ping(), 406, -32600);
    expect(&accepting("application/json"), "GET", "", 406, -32600);
    assert_eq!(accepting("*/*").send("POST", &ping()).status, 200);
    assert_eq!(accepting("text/*, application/json;q=0.5").send("POST", &ping()).status, 200);
}

#[test]
fn h2_the_version_of_a_message_is_one_that_is_known() {
    let stage = Stage::new(Sharing::All);
    let (web, _server) = stage.both();
    let version = |version: &str| web.clone().with("MCP-Protocol-Version", version);
    for known in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        assert_eq!(version(known).send("POST", &ping()).status, 200, "{known}");
    }
    for unknown in ["2026-07-28", "1789-07-14", ""] {
        for method in ["POST", "GET", "DELETE"] {
            expect(&version(unknown), method, &ping(), 400, -32600);
        }
    }
    assert_eq!(web.send("POST", &ping()).status, 200, "the session is still there");
}

#[test]
fn h2_without_a_session_only_a_handshake_is_accepted() {
    let stage = Stage::new(Sharing::All);
    let web = stage.web();
    expect(&web, "POST", &ping(), 400, -32600);
    expect(&web, "POST", r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, 400, -32600);
    expect(&web, "GET", "", 405, -32600);
    expect(&web, "DELETE", "", 405, -32600);
    let long = "1".repeat(1000);
    for id in [
        "",
        "1",
        "x",
        "00000000000000000000000000000000",
        "+0000000000000000000000000000000",
        &long,
    ] {
        let web = web.clone().with("Mcp-Session-Id", id);
        for method in ["POST", "GET", "DELETE"] {
            expect(&web, method, &ping(), 404, -32600);
        }
    }
}

#[test]
fn malformed_messages_are_refused() {
    let stage = Stage::new(Sharing::All);
    let (web, _server) = stage.both();
    for text in ["", "{", "nonsense", "\u{feff}"] {
        expect(&web, "POST", text, 400, -32700);
    }
    let invalid = [
        "7",
        "{}",
        r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{}}"#,
    ];
    for text in invalid {
        expect(&web, "POST", text, 400, -32600);
    }
}

#[test]
fn unknown_paths_and_methods_are_refused() {
    let stage = Stage::new(Sharing::All);
    let hello = hello("2025-11-25", &json!({}));
    for path in ["/", "/mcpx", "/mcp/unknown", "/mcp/%zz", "/metrics"] {
        expect(&stage.web_at(path), "POST", &hello, 404, -32600);
    }
    for method in ["PUT", "PATCH", "OPTIONS", "BREW"] {
        let mut reply = stage.web().send(method, "");
        assert_eq!((reply.status, reply.header("allow")), (405, Some("GET, POST, DELETE")));
        reply.text();
    }
}
