//! Failures of a remote server, and the errors that clients get. No call is ever sent twice.

use std::time::Duration;

use hyper::header::{AUTHORIZATION, HeaderValue};
use ostler_testkit::{FakeHttp, Part, Reply, standard};
use serde_json::{Value, json};

use crate::stage::{Stage, call, sent};

/// The error that a client gets if the server responds to its call like this.
fn failed(reply: impl Fn() -> Reply + Send + Sync + 'static) -> (Value, FakeHttp) {
    let fake = FakeHttp::new(
        move |heard| {
            if heard.is_call("tools/call") { reply() } else { standard(heard) }
        },
    );
    let stage = Stage::with(&fake.url("/mcp"), |settings| settings.limits.message = 100_000);
    let mut client = stage.context();
    let failed = call(&mut client, 1);
    assert_eq!(failed["error"]["code"], -32603, "{failed}");
    assert_eq!(sent(&fake, 1), 1);
    (failed["error"].clone(), fake)
}

fn text(error: &Value) -> &str {
    error["message"].as_str().unwrap()
}

#[test]
fn an_http_error_is_passed_on_with_its_text() {
    for status in [400, 403, 429, 500, 503] {
        let said = json!({ "jsonrpc": "2.0", "id": null, "error": { "code": 1, "message": "out of tea" } });
        let (error, _) = failed(move || Reply::json(&said).as_status(status));
        assert!(text(&error).contains("out of tea"), "{error}");
        assert!(text(&error).contains(&status.to_string()), "{error}");
        assert_eq!(error["data"]["gateway"]["reason"], "upstream_refused");
    }
}

#[test]
fn an_invalid_response_is_reported() {
    let html =
        || Reply::status(200).with("content-type", "text/html").and(Part::Text("<p>".into()));
    let (error, _) = failed(html);
    assert!(text(&error).contains("text/html"), "{error}");
    for body in [json!([]), json!({ "jsonrpc": "2.0", "id": 99, "result": {} }), json!("x")] {
        let (error, _) = failed(move || Reply::json(&body));
        assert_eq!(error["data"]["gateway"]["reason"], "upstream_invalid", "{error}");
    }
    let (error, _) = failed(|| Reply::status(202));
    assert_eq!(error["data"]["gateway"]["reason"], "upstream_invalid", "{error}");
}

#[test]
fn a_response_over_the_limit_is_refused() {
    let long = "x".repeat(200_000);
    let json = json!({ "jsonrpc": "2.0", "id": 1, "result": { "text": long } });
    let event = json.clone();
    let (error, _) = failed(move || Reply::json(&json));
    assert!(text(&error).contains("100000 bytes"), "{error}");
    let (error, _) = failed(move || Reply::stream([Part::event(&event)]));
    assert!(text(&error).contains("100000 bytes"), "{error}");
}

#[test]
fn a_connection_that_breaks_in_a_response_is_not_retried() {
    let half = || {
        let head = Reply::status(200).with("content-type", "application/json");
        head.and(Part::Text("{\"jsonrpc\"".into())).and(Part::Cut)
    };
    let (error, _) = failed(half);
    assert_eq!(error["data"]["gateway"]["reason"], "upstream_unreachable", "{error}");
}

#[test]
fn a_redirect_leads_to_the_same_server_only() {
    let fake = FakeHttp::new(|heard| match heard.path.as_str() {
        "/mcp" => Reply::status(307).with("location", "/moved/mcp"),
        _ => standard(heard),
    });
    let stage = Stage::new(&fake);
    assert!(call(&mut stage.context(), 1)["result"].is_object());

    let stranger = FakeHttp::new(standard);
    let elsewhere = stranger.url("/mcp");
    let fake = FakeHttp::new(move |_| Reply::status(307).with("location", &elsewhere));
    let stage = Stage::with(&fake.url("/mcp"), |settings| {
        settings.headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer s3cret"));
    });
    let mut client = stage.client();
    client.hello(&json!({}));
    let failed = client.message();
    let text = failed["error"]["message"].as_str().unwrap();
    assert!(text.contains(&stranger.url("")) && !text.contains("s3cret"), "{failed}");
    assert_eq!(stranger.opened(), 0);
}

#[test]
fn a_redirect_loop_ends() {
    let fake = FakeHttp::new(|_| Reply::status(308).with("location", "/mcp"));
    let stage = Stage::new(&fake);
    let mut client = stage.client();
    client.hello(&json!({}));
    let failed = client.message();
    let text = failed["error"]["message"].as_str().unwrap();
    assert!(text.contains("redirects too often"), "{failed}");
    assert_eq!(fake.heard().len(), 4);
}

#[test]
fn an_unreachable_server_is_named() {
    let mut fake = FakeHttp::new(standard);
    let url = fake.url("/s3cret?s3cret");
    fake.vanish();
    let stage = Stage::with(&url, |_| {});
    let mut client = stage.client();
    client.hello(&json!({}));
    let failed = client.message();
    let text = failed["error"]["message"].as_str().unwrap();
    assert!(text.contains(&format!("127.0.0.1:{} can't be reached", fake.port())), "{failed}");
    assert!(!text.contains("s3cret"), "{failed}");
}

#[test]
fn an_unanswered_notification_does_not_block_calls() {
    let fake = FakeHttp::new(|heard| {
        let reply = standard(heard);
        if heard.is_call("notifications/initialized") {
            return Reply::status(202).and(Part::Pause(Duration::from_hours(1)));
        }
        reply
    });
    let stage = Stage::with(&fake.url("/mcp"), |settings| {
        settings.limits.taken = Duration::from_millis(50);
    });
    assert!(call(&mut stage.context(), 1)["result"].is_object());
}

#[test]
fn a_401_names_the_command_or_setting_that_helps() {
    let fake = FakeHttp::new(|_| Reply::status(401));
    for (authorization, advice) in [(None, "ostler login far"), (Some("Bearer s3cret"), "headers")]
    {
        let stage = Stage::with(&fake.url("/mcp"), |settings| {
            let value = authorization.map(HeaderValue::from_static);
            settings.headers.extend(value.map(|value| (AUTHORIZATION, value)));
        });
        let mut client = stage.client();
        client.hello(&json!({}));
        let failed = client.message();
        let text = failed["error"]["message"].as_str().unwrap();
        assert!(text.contains(advice) && !text.contains("s3cret"), "{failed}");
    }
    let heard = fake.wait_for("a key", |heard| !heard.header("authorization").is_empty());
    assert_eq!(heard.header("authorization"), "Bearer s3cret");
}
