//! Reads and edits single values of a message in its bytes.
//!
//! The gateway replaces ids, tokens and names where they are, and forwards all other bytes unchanged.

use std::ops::Range;

use bytes::{BufMut, Bytes, BytesMut};
use ostler::json::{self, Likeness};
use ostler::{Frame, Kind};
use serde_json::{Value, json};

/// Longest error message of a server that is quoted, in characters.
const LONGEST_MESSAGE: usize = 200;

/// Error codes of JSON-RPC and MCP.
pub(crate) mod code {
    pub(crate) const INVALID_REQUEST: i32 = -32600;
    pub(crate) const METHOD_NOT_FOUND: i32 = -32601;
    pub(crate) const INVALID_PARAMS: i32 = -32602;
    pub(crate) const INTERNAL: i32 = -32603;
    pub(crate) const PARSE: i32 = -32700;
    /// The client has to open a URL first (URL elicitation required).
    pub(crate) const ELSEWHERE: i32 = -32042;
}

/// Range in `bytes` of the value under `path`, looked up in the object at `within`. `None` if there is no value, or
/// if some parser could find another one under that path.
pub(crate) fn find(bytes: &[u8], within: Range<usize>, path: &[&str]) -> Option<Range<usize>> {
    path.iter().try_fold(within, |edges, name| json::find(bytes, edges, name))
}

/// Range of a parameter of a message.
pub(crate) fn param(frame: &Frame, path: &[&str]) -> Option<Range<usize>> {
    find(frame.bytes(), frame.body_edges(), path)
}

/// Parameter that is a string.
pub(crate) fn text_param(frame: &Frame, path: &[&str]) -> Option<String> {
    serde_json::from_slice(frame.bytes().get(param(frame, path)?)?).ok()
}

/// String under this path of an object.
pub(crate) fn text_at(object: &str, path: &[&str]) -> Option<String> {
    let edges = find(object.as_bytes(), 0..object.len(), path)?;
    serde_json::from_str(&object[edges]).ok()
}

/// Id of a request, in the form under which its response is awaited.
pub(crate) fn request_id(frame: &Frame) -> Bytes {
    same_id(frame.bytes().slice(frame.id_edges()))
}

/// Normal form of an id: a string may be written with escapes or without.
pub(crate) fn same_id(id: Bytes) -> Bytes {
    if memchr::memchr(b'\\', &id).is_none() {
        return id;
    }
    let text: Result<String, _> = serde_json::from_slice(&id);
    text.map_or(id, |text| Value::from(text).to_string().into())
}

/// Whether a request has the name of a notification, or the other way round.
pub(crate) fn is_misnamed(frame: &Frame) -> bool {
    let is_named_notification = frame.method().starts_with(b"notifications/");
    match frame.kind() {
        Kind::Request => is_named_notification,
        Kind::Notification => !is_named_notification,
        Kind::Answer => false,
    }
}

/// Removes one member of the object under `path`, however its key is spelled.
pub(crate) fn without(bytes: Bytes, path: &[&str], name: &str) -> Bytes {
    let Some(edges) = find(&bytes, 0..bytes.len(), path) else { return bytes };
    let (mut kept, mut is_there) = (Vec::new(), false);
    let walked = json::members(&bytes, edges.clone(), |member| {
        if json::likeness(&member.key, name) == Likeness::Different {
            kept.push(&bytes[member.edges]);
        } else {
            is_there = true;
        }
    });
    if walked.is_none() || !is_there {
        return bytes;
    }
    let rest = [&b"{"[..], &kept.join(&b","[..]), b"}"].concat();
    let line = splice(&bytes, vec![(edges, rest.into())]);
    line.slice(..line.len() - 1)
}

/// Replaces these ranges, which must not overlap, and appends a line end.
pub(crate) fn splice(bytes: &[u8], mut edits: Vec<(Range<usize>, Bytes)>) -> Bytes {
    edits.sort_unstable_by_key(|(edges, _)| edges.start);
    let added: usize = edits.iter().map(|(_, new)| new.len()).sum();
    let mut line = BytesMut::with_capacity(bytes.len() + added + 1);
    let mut at = 0;
    for (edges, new) in edits {
        line.put_slice(&bytes[at..edges.start]);
        line.put_slice(&new);
        at = edges.end;
    }
    line.put_slice(&bytes[at..]);
    line.put_u8(b'\n');
    line.freeze()
}

/// Whether an id is a string or a whole number.
pub(crate) fn is_whole(id: &[u8]) -> bool {
    id.first() == Some(&b'"') || !id.iter().any(|byte| b".eE".contains(byte))
}

/// JSON form of a number.
pub(crate) fn number(number: impl std::fmt::Display) -> Bytes {
    Bytes::from(number.to_string())
}

/// Response with this result, which is JSON already.
pub(crate) fn answer(id: &[u8], result: &[u8]) -> Bytes {
    let mut line = BytesMut::with_capacity(id.len() + result.len() + 40);
    line.put_slice(br#"{"jsonrpc":"2.0","id":"#);
    line.put_slice(id);
    line.put_slice(br#","result":"#);
    line.put_slice(result);
    line.put_slice(b"}\n");
    line.freeze()
}

/// Error response. `reason` is a code for programs.
pub(crate) fn error(id: &[u8], code: i32, message: &str, reason: Option<&str>) -> Bytes {
    error_with(id, code, message, reason.map(|reason| json!({ "reason": reason })))
}

/// Error response with these details in `data.gateway`.
pub(crate) fn error_with(id: &[u8], code: i32, message: &str, details: Option<Value>) -> Bytes {
    let mut error = json!({ "code": code, "message": message });
    if let Some(details) = details {
        error["data"] = json!({ "gateway": details });
    }
    let id = if id.is_empty() { b"null" } else { id };
    let mut line = BytesMut::from(&br#"{"jsonrpc":"2.0","id":"#[..]);
    line.put_slice(id);
    line.put_slice(br#","error":"#);
    line.put_slice(error.to_string().as_bytes());
    line.put_slice(b"}\n");
    line.freeze()
}

/// Text of an error response: its code and the start of its message.
pub(crate) fn error_text(answer: &Frame) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Error {
        code: i64,
        message: String,
    }
    let error = answer.is_error().then(|| serde_json::from_slice(answer.body()).ok());
    let Error { code, message } = error.flatten()?;
    Some(format!("it answered with the error {code}: {message:.LONGEST_MESSAGE$}"))
}

/// Notification; `params` is JSON already.
pub(crate) fn notification(method: &str, params: Option<&[u8]>) -> Bytes {
    let mut line = BytesMut::from(&br#"{"jsonrpc":"2.0","method":""#[..]);
    line.put_slice(method.as_bytes());
    line.put_u8(b'"');
    if let Some(params) = params {
        line.put_slice(br#","params":"#);
        line.put_slice(params);
    }
    line.put_slice(b"}\n");
    line.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(text: &str) -> Frame {
        Frame::parse(Bytes::copy_from_slice(text.as_bytes())).unwrap()
    }

    #[test]
    fn names_are_found_however_they_are_written() {
        let text = r#"{"id":1,"method":"m","params":{"n\u0061me":"x"}}"#;
        assert_eq!(text_param(&frame(text), &["name"]).unwrap(), "x");
    }

    #[test]
    fn splicing_changes_nothing_else() {
        let text = r#"{"id":1, "method":"m","params":{"_meta":{"progressToken":2},"n":1e400}}"#;
        let whole = frame(text);
        let token = param(&whole, &["_meta", "progressToken"]).unwrap();
        let edits = vec![(token, number(77)), (whole.id_edges(), number(88))];
        let line = splice(whole.bytes(), edits);
        let expected = text.replacen('1', "88", 1).replacen('2', "77", 1) + "\n";
        assert_eq!(line, expected);
    }

    #[test]
    fn an_id_is_the_same_however_it_is_written() {
        let same = |id: &'static str| same_id(Bytes::from_static(id.as_bytes()));
        assert_eq!(same(r#""\u0061\/é""#), same(r#""a/\u00e9""#));
        assert_eq!(same(r#""a/é""#), r#""a/é""#);
        assert_ne!(same("1"), same(r#""1""#));
        assert_eq!(same(r#""\ud800""#), r#""\ud800""#);
    }
}
