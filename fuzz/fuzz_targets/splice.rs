//! Replacing progress tokens changes nothing else in a message.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use ostler::{Frame, Kind};
use ostler_gateway::fuzzing::{check, splice};
use serde_json::{Value, json};

const ID: u64 = 4_711;
const TOKEN: u64 = 4_712;

/// Byte range of the progress token, if every parser finds the same one.
fn progress_token(frame: &Frame) -> Option<std::ops::Range<usize>> {
    check(frame).ok().and_then(|(token, _)| token)
}

fuzz_target!(|data: &[u8]| {
    let Ok(frame) = Frame::parse(data.to_vec()) else { return };
    let mut edits = Vec::new();
    if frame.kind() != Kind::Notification {
        edits.push((frame.id_edges(), Bytes::from(ID.to_string())));
    }
    let token = progress_token(&frame);
    edits.extend(token.clone().map(|edges| (edges, Bytes::from(TOKEN.to_string()))));
    let line = splice(frame.bytes(), edits.clone());
    let changed = line.strip_suffix(b"\n").expect("a line");
    let other = Frame::parse(changed.to_vec()).expect("a message");
    assert_eq!((other.kind(), other.method()), (frame.kind(), frame.method()));
    assert_eq!(
        progress_token(&other).map(|edges| &changed[edges]),
        token.as_ref().map(|_| &b"4712"[..])
    );

    let Ok(mut expected) = serde_json::from_slice::<Value>(data) else { return };
    if frame.kind() != Kind::Notification {
        expected["id"] = json!(ID);
    }
    if token.is_some() {
        let body =
            ["params", "result", "error"].into_iter().find(|name| expected.get(name).is_some());
        expected[body.expect("a body")]["_meta"]["progressToken"] = json!(TOKEN);
    }
    assert_eq!(serde_json::from_slice::<Value>(changed).expect("JSON"), expected);
});
