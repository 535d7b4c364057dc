//! The byte ranges of a frame agree with `serde_json`, and replacing the id changes nothing else.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ostler::{Frame, Kind};
use serde_json::Value;

const ID: &[u8] = b"9007199254740991";

fuzz_target!(|data: &[u8]| {
    let Ok(frame) = Frame::parse(data.to_vec()) else { return };
    assert_eq!(frame.bytes(), data);
    assert_eq!(frame.line(), [data, b"\n"].concat());
    match frame.kind() {
        Kind::Notification => assert!(frame.id().is_empty()),
        Kind::Request => assert!(!frame.id().is_empty()),
        Kind::Answer => assert!(!frame.id().is_empty() && frame.method().is_empty()),
    }
    if frame.kind() == Kind::Request {
        Frame::parse(frame.refusal(-32603, "\"refused\"\n")).expect("a refusal");
    }
    if frame.kind() != Kind::Notification {
        let other = frame.with_id(ID);
        assert_eq!(Frame::parse(other.bytes().clone()).expect("a message"), other);
        assert_eq!((other.id(), other.method(), other.body()), (ID, frame.method(), frame.body()));
        assert_eq!(other.with_id(frame.id()), frame);
    }
    // Some valid frames are no JSON for `serde_json`: numbers may be too large, and values too deep.
    if let Ok(whole) = serde_json::from_slice::<Value>(data) {
        let part = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).ok();
        assert_eq!(part(frame.id()).as_ref(), whole.get("id"));
        let method = whole.get("method").map_or("", |method| method.as_str().expect("a name"));
        assert_eq!(frame.method(), method.as_bytes());
        let body = ["params", "result", "error"].iter().find_map(|name| whole.get(name));
        assert_eq!(part(frame.body()).as_ref(), body);
    }
});
