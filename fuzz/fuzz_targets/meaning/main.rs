//! What the gateway finds in a message is what `serde_json` finds in it, however keys and texts are written; and what the
//! gateway splices changes nothing else.
//!
//! `serde_json` would take the last of two equal keys and know nothing of spellings, so that the oracle is a tree of what
//! it reads which keeps all members ([`Tree`]).
#![no_main]

mod tree;

use std::collections::HashSet;

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use ostler::{Frame, Kind};
use ostler_gateway::fuzzing::{batch, check, param, same_id, splice, text_param, without};
use serde_json::Value;
use serde_json::value::RawValue;

use self::tree::{Found, Tree};

/// Parameters that rules of the gateway read or splice.
const PATHS: [&[&str]; 14] = [
    &["_meta", "progressToken"],
    &["name"],
    &["uri"],
    &["ref", "name"],
    &["ref", "uri"],
    &["ref", "type"],
    &["requestId"],
    &["progressToken"],
    &["level"],
    &["cursor"],
    &["mode"],
    &["elicitationId"],
    &["protocolVersion"],
    &["tools"],
];

/// Messages that a batch may hold.
const MOST: usize = 256;

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("the text of a message")
}

/// The key of the parameters, the result or the error.
fn body_key(whole: &Tree) -> Option<&'static str> {
    ["params", "result", "error"].into_iter().find(|key| matches!(whole.get(key), Found::One(_)))
}

/// The gateway finds a parameter where the oracle does, and reads the same text there.
fn check_param(frame: &Frame, body: &Tree, path: &[&str]) -> bool {
    let found = param(frame, path).map(|edges| text(&frame.bytes()[edges]));
    match body.find(path) {
        Found::Nothing | Found::Unclear => assert_eq!(found, None, "{path:?}"),
        Found::One(value) => {
            let found = found.expect("a parameter that is there");
            assert_eq!(&Tree::parse(found).expect("JSON"), value, "{path:?}");
            assert_eq!(text_param(frame, path), serde_json::from_str(found).ok(), "{path:?}");
        }
    }
    found.is_some()
}

/// The rules for all requests see what is there, and refuse only what is unclear.
fn check_rules(frame: &Frame, body: &Tree) {
    match check(frame) {
        Ok((token, has_task)) => {
            let token = token.map(|edges| text(&frame.bytes()[edges]).to_owned());
            let found = match body.find(&["_meta", "progressToken"]) {
                Found::One(value) => Some(value.clone()),
                Found::Nothing => None,
                Found::Unclear => panic!("an unclear token is accepted"),
            };
            assert_eq!(token.map(|token| Tree::parse(&token).expect("JSON")), found);
            match body.get("task") {
                Found::One(_) => assert!(has_task),
                Found::Nothing => assert!(!has_task),
                Found::Unclear => panic!("an unclear task is accepted"),
            }
            let read: &[&[&str]] = match frame.method() {
                b"tools/call" | b"prompts/get" => &[&["name"], &["arguments"]],
                b"resources/read" | b"resources/subscribe" | b"resources/unsubscribe" => {
                    &[&["uri"]]
                }
                b"completion/complete" => &[&["ref", "type"], &["ref", "name"], &["ref", "uri"]],
                b"notifications/cancelled" => &[&["requestId"]],
                b"notifications/progress" => &[&["progressToken"]],
                b"logging/setLevel" => &[&["level"]],
                _ => &[],
            };
            let is_unclear = |path: &&&[&str]| matches!(body.find(path), Found::Unclear);
            assert_eq!(read.iter().find(is_unclear), None, "an unclear parameter is accepted");
        }
        Err("params") => assert!(!matches!(body, Tree::Object(_))),
        Err(key) => {
            let is_unclear = |path: &[&str]| match body.find(path) {
                Found::One(within) => matches!(within.get(key), Found::Unclear),
                Found::Nothing | Found::Unclear => false,
            };
            assert!(is_unclear(&[]) || is_unclear(&["_meta"]) || is_unclear(&["ref"]), "{key}");
        }
    }
}

/// With all these parameters and the id replaced at once, the rest is the same.
fn check_splice(frame: &Frame, mut whole: Tree, key: &str, paths: &[&[&str]]) {
    let mut edits = Vec::new();
    for (number, path) in paths.iter().enumerate() {
        let value = format!("\"other \\\" {number}\"");
        whole.replace(&[&[key], *path].concat(), &value);
        edits.push((param(frame, path).expect("a parameter"), Bytes::from(value)));
    }
    if frame.kind() != Kind::Notification {
        whole.replace(&["id"], "4711");
        edits.push((frame.id_edges(), Bytes::from("4711")));
    }
    let line = splice(frame.bytes(), edits);
    let spliced = line.strip_suffix(b"\n").expect("a line");
    assert_eq!(Tree::parse(text(spliced)).expect("JSON"), whole);
    let other = Frame::parse(spliced.to_vec()).expect("a message");
    assert_eq!((other.kind(), other.method()), (frame.kind(), frame.method()));
}

fn check_without(frame: &Frame, whole: &Tree, path: &[&str], name: &str) {
    let mut expected = whole.clone();
    if matches!(whole.find(path), Found::One(_)) {
        expected.remove(path, name);
    }
    let rest = without(frame.bytes().clone(), path, name);
    assert_eq!(Tree::parse(text(&rest)).expect("JSON"), expected);
}

/// An id is the same with each of its letters escaped.
fn check_id(frame: &Frame) {
    let Ok(id) = serde_json::from_slice::<String>(frame.id()) else { return };
    let escaped: String = id.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
    let escaped = Bytes::from(format!("\"{escaped}\""));
    assert_eq!(serde_json::from_slice::<String>(&same_id(escaped.clone())).expect("a text"), id);
    let plain = Bytes::from(Value::from(id.as_str()).to_string());
    assert_eq!(same_id(escaped), same_id(plain));
}

fn check_message(frame: &Frame) {
    let whole = Tree::parse(text(frame.bytes())).expect("JSON");
    let own = |key: &str| match whole.get(key) {
        Found::One(value) => Some(value),
        Found::Nothing => None,
        Found::Unclear => panic!("an unclear {key} is accepted"),
    };
    let part = |bytes: &[u8]| (!bytes.is_empty()).then(|| Tree::parse(text(bytes)).expect("JSON"));
    assert_eq!(part(frame.id()).as_ref(), own("id"));
    let method = own("method").map(|method| match method {
        Tree::Text(text) => serde_json::from_str::<String>(text).expect("a method's name"),
        Tree::Object(_) | Tree::Array(_) => panic!("a method without a name is accepted"),
    });
    assert_eq!(text(frame.method()), method.unwrap_or_default());
    check_id(frame);

    let Some(key) = body_key(&whole) else {
        assert!(frame.body().is_empty());
        return check_splice(frame, whole.clone(), "", &[]);
    };
    let body = own(key).expect("a body");
    assert_eq!(part(frame.body()).as_ref(), Some(body));
    let found: Vec<_> = PATHS.into_iter().filter(|path| check_param(frame, body, path)).collect();
    if frame.body() != b"null" {
        check_rules(frame, body);
    }
    check_splice(frame, whole.clone(), key, &found);
    check_without(frame, &whole, &[], "x");
    check_without(frame, &whole, &[key], "task");
    check_without(frame, &whole, &[key, "_meta"], "progressToken");
}

/// A batch is accepted if it is an array of messages whose requests have different ids.
fn check_batch(data: &[u8]) {
    let line = Bytes::copy_from_slice(data);
    let messages = batch(&line);
    let parts: Vec<&RawValue> = serde_json::from_slice(data).unwrap_or_default();
    let mut ids = HashSet::new();
    let mut is_fine = |part: &&RawValue| {
        Frame::parse(part.get().to_owned()).is_ok_and(|frame| {
            let id = same_id(Bytes::copy_from_slice(frame.id()));
            let is_new = frame.kind() != Kind::Request || ids.insert(id);
            is_new && frame.method() != b"initialize"
        })
    };
    let is_accepted = (1..=MOST).contains(&parts.len()) && parts.iter().all(&mut is_fine);
    assert_eq!(messages.is_some(), is_accepted);
    for (message, part) in messages.unwrap_or_default().iter().zip(parts) {
        assert_eq!(text(message.bytes()), part.get());
    }
}

fuzz_target!(|data: &[u8]| {
    if let Ok(frame) = Frame::parse(data.to_vec()) {
        check_message(&frame);
    }
    check_batch(data);
});
