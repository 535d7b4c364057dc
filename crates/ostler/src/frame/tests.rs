//! Valid and invalid messages.

use super::*;

fn parse(text: &str) -> Result<Frame, InvalidFrame> {
    Frame::parse(Bytes::copy_from_slice(text.as_bytes()))
}

#[test]
fn a_message_is_known_by_its_envelope() {
    let kind = |text: &str| parse(text).unwrap().kind();
    assert_eq!(kind(r#"{"jsonrpc":"2.0","id":1,"method":"m"}"#), Kind::Request);
    assert_eq!(kind(r#"{"method":"m","params":{"id":7}}"#), Kind::Notification);
    assert_eq!(kind(r#"{"id":"a","result":null}"#), Kind::Answer);
    assert_eq!(kind(r#"{"id":null,"error":{}}"#), Kind::Answer);
}

#[test]
fn invalid_messages_are_refused() {
    let refused = [
        "",
        "[]",
        "{}",
        r#"{"id":1}"#,
        r#"{"id":1,"method":"m","result":1}"#,
        r#"{"id":1,"result":1,"error":1}"#,
        r#"{"id":{},"method":"m"}"#,
        r#"{"id":1,"method":7}"#,
        r#"{"id":null,"method":"m"}"#,
        r#"{"id":1,"id":2,"method":"m"}"#,
        "{\"method\":\"m\",\n\"params\":1}",
        r#"{"method":"m"} x"#,
        r#"[1,"m"]"#,
        r#" ["a", "tools/call", {}]"#,
        r#"{"id":1,"method":"m","params":{"a":{}}"#,
        r#"{"id":1,"method":"\ud800"}"#,
        "{\"method\":\"m\",\"para\0s\":1}",
        "{\"method\":\"m\",\"\\u0061\tb\":1}",
        r#"{"method":"m","a\u0009":1}"#,
    ];
    for text in refused {
        assert!(parse(text).is_err(), "{text}");
    }
}

#[test]
fn replacing_the_id_changes_nothing_else() {
    let text = r#"{ "result":{"x":1.50,"id":3}, "vendor":"\ud800", "id" : "old" }"#;
    let frame = parse(text).unwrap();
    assert_eq!(frame.id(), br#""old""#);
    let changed = frame.with_id(b"12345");
    assert_eq!(changed.bytes(), &text.replace(r#""old""#, "12345"));
    assert_eq!(changed.with_id(br#""old""#), frame);
}

#[test]
fn a_method_with_escapes_is_decoded() {
    let frame = parse(r#"{"id":1,"method":"tools\/call"}"#).unwrap();
    assert_eq!(frame.method(), b"tools/call");
    assert_eq!(frame.with_id(b"77").method(), b"tools/call");
    let plain = parse(r#"{"id":1,"method":"tools/call"}"#).unwrap();
    assert_eq!(plain.with_id(b"77").method(), b"tools/call");
}

#[test]
fn a_call_id_is_recognised_in_every_form_that_servers_return() {
    let call = |id: &str| parse(&format!(r#"{{"id":{id},"result":1}}"#)).unwrap().call_id();
    for id in ["7", r#""7""#, "7.0"] {
        assert_eq!(call(id), Some(CallId(7)));
    }
    assert_eq!(call(r#""other""#), None);
}

#[test]
fn an_ambiguous_key_of_the_envelope_is_refused_by_name() {
    let ambiguous = [
        (r#"{"id":1,"ID":2,"method":"m"}"#, "id"),
        (r#"{"id":1,"id":2,"method":"m"}"#, "id"),
        (r#"{"id":1,"\u0069d":2,"method":"m"}"#, "id"),
        (r#"{"ID":2,"method":"m"}"#, "id"),
        (r#"{"id":1,"method":"m","paramſ":{}}"#, "params"),
        (r#"{"id":1,"method":"m","PARAM\u017f":{}}"#, "params"),
        (r#"{"id":1,"method":"m","method\u0000x":"n"}"#, "method"),
        (r#"{"id":1,"method":"m","method\ud800":"n"}"#, "method"),
        (r#"{"id":1,"result":1,"Error":null}"#, "error"),
        (r#"{"id":1,"result":1,"re_sult":null}"#, "result"),
        (r#"{"jsonrpc":"2.0","Jsonrpc":"2.0","id":1,"result":1}"#, "jsonrpc"),
    ];
    for (text, key) in ambiguous {
        let refused = parse(text);
        assert!(matches!(refused, Err(InvalidFrame::Ambiguous(named)) if named == key), "{text}");
    }
    for text in [
        r#"{"id":1,"method":"m","identity":1,"i":1,"Methods":1,"\ud800":1,"":1}"#,
        r#"{"id":1,"method":"m","params":{"id":1,"ID":2,"Method":3}}"#,
        r#"{"id":1,"result":{"id":1,"ID":2,"Result":3},"_meta":{},"Meta":{}}"#,
    ] {
        assert!(parse(text).is_ok(), "{text}");
    }
}

#[test]
fn a_key_with_escapes_means_the_same_as_without() {
    let text = r#"{"\u0069d":7,"m\u0065thod":"a\/b","\u0070arams":{"x":1}}"#;
    let frame = parse(text).unwrap();
    assert_eq!(
        (frame.id(), frame.method(), frame.body()),
        (&b"7"[..], &b"a/b"[..], &br#"{"x":1}"#[..])
    );
}

#[test]
fn invalid_utf_8_is_refused_anywhere_in_the_message() {
    for bytes in [&b"{\"method\":\"m\",\"x\":\"\xff\"}"[..], b"{\"method\":\"m\",\"\xc3\":1}"] {
        assert!(matches!(Frame::parse(bytes), Err(InvalidFrame::NotUtf8)));
    }
}

#[test]
fn nesting_depth_needs_no_stack() {
    let deep = [&"[".repeat(1 << 20), "]".repeat(1 << 20).as_str()].concat();
    let text = format!(r#"{{"x":{deep},"id":1,"method":"m","params":{deep}}}"#);
    assert_eq!(parse(&text).unwrap().body(), deep.as_bytes());
}
