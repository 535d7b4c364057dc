//! One message of JSON-RPC with known edges.
//!
//! Only the envelope is looked at, and only where its parts begin and end: parameters and results
//! stay the bytes that they are, so that nothing is lost that we do not know. Whoever gets the message may read its
//! JSON in another way than we do, so that one is refused whose envelope could mean two things.

mod envelope;

use std::fmt;
use std::ops::Range;

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::value::RawValue;

use self::envelope::Envelope;

/// A message, as it came.
#[derive(Clone, PartialEq, Eq)]
pub struct Frame {
    bytes: Bytes,
    kind: Kind,
    /// Where the id is; empty for a notification.
    id: Range<usize>,
    method: Method,
    /// Where the parameters, the result or the error are; empty if there are none.
    body: Range<usize>,
    is_error: bool,
}

/// The name of what is wanted or told.
#[derive(Clone, PartialEq, Eq)]
enum Method {
    /// Where it is, without its quotes; empty for an answer.
    Plain(Range<usize>),
    /// It is written with escapes, as some write every slash.
    Decoded(Box<str>),
}

/// What sort of message it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Wants an answer.
    Request,
    /// Wants none.
    Notification,
    /// Is one.
    Answer,
}

/// Why bytes are not a message.
#[derive(Debug, thiserror::Error)]
pub enum InvalidFrame {
    /// They are not a JSON object.
    #[error("not a JSON object")]
    NotJson(#[source] serde_json::Error),
    /// They hold a line break, which ends a message on a pipe.
    #[error("a line break within a message")]
    LineBreak,
    /// They are not UTF-8, at which many programs stop reading.
    #[error("not UTF-8")]
    NotUtf8,
    /// This key of the envelope is there twice, or in a spelling that some programs take for it.
    #[error("the key `{0}` must appear exactly once, in this spelling")]
    Ambiguous(&'static str),
    /// They are JSON, but neither a request nor a notification nor a response.
    #[error("neither a request nor a notification nor a response")]
    NotAMessage,
    /// The id is neither a string nor a whole number.
    #[error("an id that is neither a string nor a whole number")]
    Id,
}

/// The number that we give to a request while it is with a server; never used twice for the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId(pub(crate) u64);

impl CallId {
    /// The number itself.
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
    /// Finds the edges of a message that stands alone, without its line break.
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

    /// What sort of message it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether it is an answer that says what went wrong.
    pub fn is_error(&self) -> bool {
        self.is_error
    }

    /// The whole message, without a line break.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The id as it is written; empty for a notification.
    pub fn id(&self) -> &[u8] {
        &self.bytes[self.id.clone()]
    }

    /// The method's name; empty for an answer.
    pub fn method(&self) -> &[u8] {
        match &self.method {
            Method::Plain(edges) => &self.bytes[edges.clone()],
            Method::Decoded(name) => name.as_bytes(),
        }
    }

    /// Where the parameters of a request or notification are, or the result or error of an answer;
    /// empty if there are none.
    pub fn body_edges(&self) -> Range<usize> {
        self.body.clone()
    }

    /// What is there.
    pub fn body(&self) -> &[u8] {
        &self.bytes[self.body.clone()]
    }

    /// Where the id is.
    pub fn id_edges(&self) -> Range<usize> {
        self.id.clone()
    }

    /// The number of the call that this answers, if the id is one of ours. Some servers write a number
    /// as a string or with a fraction.
    pub(crate) fn call_id(&self) -> Option<CallId> {
        let text = std::str::from_utf8(self.id()).ok()?.trim_matches('"');
        let text = text.strip_suffix(".0").unwrap_or(text);
        text.parse().ok().map(CallId)
    }

    /// The same message with another id; every other byte is as it was.
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

    /// The same as a line for a server, under a number of ours.
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

    /// The message as a line, with its end.
    pub fn line(&self) -> Bytes {
        let mut line = BytesMut::with_capacity(self.bytes.len() + 1);
        line.put_slice(&self.bytes);
        line.put_u8(b'\n');
        line.freeze()
    }

    /// An answer to this request that says that it was refused.
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

/// Where a part lies in the whole that it was borrowed from.
fn edges(whole: &[u8], part: &RawValue) -> Range<usize> {
    let start = part.get().as_ptr().addr() - whole.as_ptr().addr();
    start..start + part.get().len()
}

impl fmt::Debug for Frame {
    /// Messages carry secrets, so that only their outside is shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = String::from_utf8_lossy(self.id());
        write!(f, "Frame({:?}, id {id:?}, {} bytes)", self.kind, self.bytes.len())
    }
}

#[cfg(test)]
mod tests;
