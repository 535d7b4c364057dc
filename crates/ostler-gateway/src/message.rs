//! What the gateway looks at in a message, and what it changes: tokens, spliced into the bytes as
//! they came. Everything else stays as it is.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use bytes::{BufMut, Bytes, BytesMut};
use memchr::memmem;
use ostler::Frame;
use serde_json::value::RawValue;

/// JSON-RPC and MCP: what may go wrong.
pub(crate) mod code {
    pub(crate) const INVALID_REQUEST: i32 = -32600;
    pub(crate) const METHOD_NOT_FOUND: i32 = -32601;
    pub(crate) const INVALID_PARAMS: i32 = -32602;
    pub(crate) const INTERNAL: i32 = -32603;
    pub(crate) const PARSE: i32 = -32700;
    /// Something has to be done elsewhere first.
    pub(crate) const ELSEWHERE: i32 = -32042;
}

/// The parts of an object by name. Names that are written in an odd way are found as well.
type Parts<'a> = BTreeMap<Cow<'a, str>, &'a RawValue>;

/// Where the value under `path` is, counted from the start of `bytes`, of which `within` is part.
pub(crate) fn find(bytes: &[u8], within: Range<usize>, path: &[&str]) -> Option<Range<usize>> {
    let mut edges = within;
    for name in path {
        let part = bytes.get(edges.clone())?;
        let parts: Parts<'_> = serde_json::from_slice(part).ok()?;
        let value = parts.get(*name)?.get();
        let start = edges.start + (value.as_ptr().addr() - part.as_ptr().addr());
        edges = start..start + value.len();
    }
    Some(edges)
}

/// Where a parameter of a message is.
pub(crate) fn param(frame: &Frame, path: &[&str]) -> Option<Range<usize>> {
    find(frame.bytes(), frame.body_edges(), path)
}

/// A parameter that is a text.
pub(crate) fn text_param(frame: &Frame, path: &[&str]) -> Option<String> {
    serde_json::from_slice(frame.bytes().get(param(frame, path)?)?).ok()
}

/// Whether a word is anywhere in a message's parameters: much cheaper than a look at their structure, and
/// most have none of those that are looked for.
pub(crate) fn mentions(frame: &Frame, word: &str) -> bool {
    memmem::find(frame.body(), word.as_bytes()).is_some()
}

/// The same without one part of the object under `path`.
pub(crate) fn without(bytes: Bytes, path: &[&str], name: &str) -> Bytes {
    let Some(edges) = find(&bytes, 0..bytes.len(), path) else { return bytes };
    let Ok(mut parts) = serde_json::from_slice::<Parts<'_>>(&bytes[edges.clone()]) else {
        return bytes;
    };
    if parts.remove(name).is_none() {
        return bytes;
    }
    let Ok(rest) = serde_json::to_vec(&parts) else { return bytes };
    let line = splice(&bytes, vec![(edges, rest.into())]);
    line.slice(..line.len() - 1)
}

/// Where a request says by which token it wants to hear of its progress.
pub(crate) fn progress_token(frame: &Frame) -> Option<Range<usize>> {
    if mentions(frame, "progressToken") { param(frame, &["_meta", "progressToken"]) } else { None }
}

/// The bytes with these parts replaced, as a line. The parts may not overlap.
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

/// Whether an id is a text or a whole number.
pub(crate) fn is_whole(id: &[u8]) -> bool {
    id.first() == Some(&b'"') || !id.iter().any(|byte| b".eE".contains(byte))
}

/// A number as it is written in JSON.
pub(crate) fn number(number: impl std::fmt::Display) -> Bytes {
    Bytes::from(number.to_string())
}

/// An answer with this result, which is JSON already.
pub(crate) fn answer(id: &[u8], result: &[u8]) -> Bytes {
    let mut line = BytesMut::with_capacity(id.len() + result.len() + 40);
    line.put_slice(br#"{"jsonrpc":"2.0","id":"#);
    line.put_slice(id);
    line.put_slice(br#","result":"#);
    line.put_slice(result);
    line.put_slice(b"}\n");
    line.freeze()
}

/// An answer that says what went wrong. `reason` is for programs.
pub(crate) fn error(id: &[u8], code: i32, message: &str, reason: Option<&str>) -> Bytes {
    let mut error = serde_json::json!({ "code": code, "message": message });
    if let Some(reason) = reason {
        error["data"] = serde_json::json!({ "gateway": { "reason": reason } });
    }
    let id = if id.is_empty() { b"null" } else { id };
    let mut line = BytesMut::from(&br#"{"jsonrpc":"2.0","id":"#[..]);
    line.put_slice(id);
    line.put_slice(br#","error":"#);
    line.put_slice(error.to_string().as_bytes());
    line.put_slice(b"}\n");
    line.freeze()
}

/// A notification; `params` is JSON already.
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
    fn a_token_is_found_where_it_counts() {
        let text = r#"{"params":{"progressToken":1,"_meta":{"x":[1],"progressToken" : "a"}},"method":"m","id":3}"#;
        let found = progress_token(&frame(text)).unwrap();
        assert_eq!(&text[found], r#""a""#);
        assert!(
            progress_token(&frame(r#"{"id":1,"method":"m","params":{"progressToken":1}}"#))
                .is_none()
        );
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
        let token = progress_token(&whole).unwrap();
        let edits = vec![(token, number(77)), (whole.id_edges(), number(88))];
        let line = splice(whole.bytes(), edits);
        let expected = text.replacen('1', "88", 1).replacen('2', "77", 1) + "\n";
        assert_eq!(line, expected);
    }
}
