//! A JSON-RPC message as bytes, with the byte ranges of its parts.
//!
//! Parsing validates the JSON and locates id, method and body. Parameters and results stay bytes, so that unknown
//! content passes unchanged. Another parser may read the same bytes differently, so a message with an ambiguous
//! envelope (duplicate keys, or keys that a lenient parser confuses) is refused.

mod envelope;

use std::fmt;
use std::ops::Range;

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::value::RawValue;

use self::envelope::Envelope;

/// A JSON-RPC message.
#[derive(Clone, PartialEq, Eq)]
pub struct Frame {
    bytes: Bytes,
    kind: Kind,
    /// Byte range of the id; empty for a notification.
    id: Range<usize>,
    method: Method,
    /// Byte range of the parameters, result or error; empty if there are none.
    body: Range<usize>,
    is_error: bool,
}

/// The method's name.
#[derive(Clone, PartialEq, Eq)]
enum Method {
    /// Byte range without the quotes; empty for a response.
    Plain(Range<usize>),
    /// Decoded, if it is written with escapes. Some clients escape every slash.
    Decoded(Box<str>),
}

/// Kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Has a method and an id.
    Request,
    /// Has a method and no id.
    Notification,
    /// A response: has a result or an error.
    Answer,
}

/// Why bytes are not a valid message.
#[derive(Debug, thiserror::Error)]
pub enum InvalidFrame {
    /// Not a JSON object.
    #[error("not a JSON object")]
    NotJson(#[source] serde_json::Error),
    /// Contains a line break, which would end the message on a pipe.
    #[error("a line break within a message")]
    LineBreak,
    /// Not UTF-8, which many parsers reject.
    #[error("not UTF-8")]
    NotUtf8,
    /// This key of the envelope appears twice, or in a spelling that some parsers take for it.
    #[error("the key `{0}` must appear exactly once, in this spelling")]
    Ambiguous(&'static str),
    /// A JSON object that is no JSON-RPC message.
    #[error("neither a request nor a notification nor a response")]
    NotAMessage,
    /// The id is neither a string nor a whole number.
    #[error("the id is neither a string nor a whole number")]
    Id,
}

/// Id that the keeper gives a request for a server; unique per instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId(pub(crate) u64);

impl CallId {
    /// The id as a number.
    pub fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Frame {
    /// Parses one message, without its line break.
    pub fn parse(bytes: impl Into<Bytes>) -> Result<Self, InvalidFrame> {
        let bytes = bytes.into();
        if memchr::memchr(b'\n', &bytes).is_some() {
            return Err(InvalidFrame::LineBreak);
        }
        let text = std::str::from_utf8(&bytes).map_err(|_| InvalidFrame::NotUtf8)?;
        let envelope = Envelope::read(text)?;
        let kind = envelope.kind()?;
        let edges = |part: Option<&RawValue>| part.map_or(0..0, |part| edges(&bytes, part));
        let id = edges(envelope.id());
        let method = Method::of(envelope.method(), edges(envelope.method()))?;
        let body = edges(envelope.body());
        let is_error = envelope.is_error();
        Ok(Self { bytes, kind, id, method, body, is_error })
    }

    /// The kind of the message.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether it is an error response.
    pub fn is_error(&self) -> bool {
        self.is_error
    }

    /// The whole message, without a line break.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The id as written; empty for a notification.
    pub fn id(&self) -> &[u8] {
        &self.bytes[self.id.clone()]
    }

    /// The method's name; empty for a response.
    pub fn method(&self) -> &[u8] {
        match &self.method {
            Method::Plain(edges) => &self.bytes[edges.clone()],
            Method::Decoded(name) => name.as_bytes(),
        }
    }

    /// Byte range of the parameters, result or error; empty if there are none.
    pub fn body_edges(&self) -> Range<usize> {
        self.body.clone()
    }

    /// The parameters, result or error; empty if there are none.
    pub fn body(&self) -> &[u8] {
        &self.bytes[self.body.clone()]
    }

    /// Byte range of the id; empty for a notification.
    pub fn id_edges(&self) -> Range<usize> {
        self.id.clone()
    }

    /// The call that this response answers, if its id is a [`CallId`]. Some servers return a number as a
    /// string or with a fraction.
    pub(crate) fn call_id(&self) -> Option<CallId> {
        let text = std::str::from_utf8(self.id()).ok()?.trim_matches('"');
        let text = text.strip_suffix(".0").unwrap_or(text);
        text.parse().ok().map(CallId)
    }

    /// A copy with another id; all other bytes are unchanged.
    #[must_use]
    pub fn with_id(&self, id: &[u8]) -> Self {
        let bytes = self.spliced(id, 0).freeze();
        let moved = |edges: &Range<usize>| {
            let shift =
                |at: usize| if at < self.id.end { at } else { at + id.len() - self.id.len() };
            shift(edges.start)..shift(edges.end)
        };
        let method = match &self.method {
            Method::Plain(edges) => Method::Plain(moved(edges)),
            Method::Decoded(name) => Method::Decoded(name.clone()),
        };
        let body = moved(&self.body);
        let id = self.id.start..self.id.start + id.len();
        Self { bytes, kind: self.kind, id, method, body, is_error: self.is_error }
    }

    /// The message as a line with its newline, under the keeper's id.
    pub(crate) fn line_with_id(&self, id: CallId) -> Bytes {
        let mut line = self.spliced(id.to_string().as_bytes(), 1);
        line.put_u8(b'\n');
        line.freeze()
    }

    fn spliced(&self, id: &[u8], spare: usize) -> BytesMut {
        let size = self.bytes.len() - self.id.len() + id.len() + spare;
        let mut bytes = BytesMut::with_capacity(size);
        bytes.put_slice(&self.bytes[..self.id.start]);
        bytes.put_slice(id);
        bytes.put_slice(&self.bytes[self.id.end..]);
        bytes
    }

    /// The message as a line with its newline.
    pub fn line(&self) -> Bytes {
        let mut line = BytesMut::with_capacity(self.bytes.len() + 1);
        line.put_slice(&self.bytes);
        line.put_u8(b'\n');
        line.freeze()
    }

    /// An error response to this request.
    pub fn refusal(&self, code: i32, message: &str) -> Bytes {
        let message = serde_json::Value::from(message);
        let mut bytes = BytesMut::from(&br#"{"jsonrpc":"2.0","id":"#[..]);
        bytes.put_slice(self.id());
        let rest = format!(r#","error":{{"code":{code},"message":{message}}}}}"#);
        bytes.put_slice(rest.as_bytes());
        bytes.freeze()
    }
}

impl Method {
    fn of(part: Option<&RawValue>, edges: Range<usize>) -> Result<Self, InvalidFrame> {
        let Some(part) = part else { return Ok(Self::Plain(0..0)) };
        if !part.get().starts_with('"') {
            return Err(InvalidFrame::NotAMessage);
        }
        if memchr::memchr(b'\\', part.get().as_bytes()).is_none() {
            return Ok(Self::Plain(edges.start + 1..edges.end - 1));
        }
        serde_json::from_str(part.get()).map(Self::Decoded).map_err(InvalidFrame::NotJson)
    }
}

/// Byte range of a part within the text that it was borrowed from.
fn edges(whole: &[u8], part: &RawValue) -> Range<usize> {
    let start = part.get().as_ptr().addr() - whole.as_ptr().addr();
    start..start + part.get().len()
}

impl fmt::Debug for Frame {
    /// Omits the content, because messages carry secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = String::from_utf8_lossy(self.id());
        write!(f, "Frame({:?}, id {id:?}, {} bytes)", self.kind, self.bytes.len())
    }
}

#[cfg(test)]
mod tests;
