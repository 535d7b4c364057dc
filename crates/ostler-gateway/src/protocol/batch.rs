//! JSON-RPC batches, which only protocol version 2025-03-26 has.
//!
//! A batch is parsed message by message, and refused at the first message above the limit: the rest is not parsed. A
//! batch must not contain `initialize`, nor two requests with the same id. The frames share the memory of the line
//! that they came in.

use std::collections::HashSet;
use std::fmt;

use bytes::Bytes;
use ostler::{Frame, InvalidFrame, Kind};
use serde::Deserializer;
use serde::de::{Error, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::message::{self, code};
use super::version;

/// Most messages in one batch.
const MOST: usize = 256;

/// Why a batch is refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InvalidBatch {
    #[error("this protocol version has no batches")]
    Version,
    #[error("it is not JSON")]
    NotJson,
    #[error("the batch is empty")]
    Empty,
    #[error("a batch has at most {MOST} messages")]
    TooMany,
    #[error("one of its messages is invalid: {0}")]
    Invalid(InvalidFrame),
    #[error("initialize cannot be part of a batch")]
    Handshake,
    #[error("two messages of the batch have the same id")]
    Repeated,
}

impl InvalidBatch {
    /// JSON-RPC error code.
    pub(crate) fn code(&self) -> i32 {
        if matches!(self, Self::NotJson) { code::PARSE } else { code::INVALID_REQUEST }
    }
}

/// Whether a line is a batch: an array instead of an object.
pub(crate) fn is_batch(line: &[u8]) -> bool {
    line.trim_ascii_start().first() == Some(&b'[')
}

/// Parses a batch, if this protocol version has batches.
pub(crate) fn parse(line: &Bytes, version: &str) -> Result<Vec<Frame>, InvalidBatch> {
    if version != version::WITH_BATCHES {
        return Err(InvalidBatch::Version);
    }
    let mut reader = Reader { line, frames: Vec::new(), ids: HashSet::new(), refused: None };
    let mut text = serde_json::Deserializer::from_slice(line);
    let read = text.deserialize_seq(&mut reader).and_then(|()| text.end());
    match (reader.refused, read) {
        (Some(refused), _) => Err(refused),
        (None, Err(_)) => Err(InvalidBatch::NotJson),
        (None, Ok(())) if reader.frames.is_empty() => Err(InvalidBatch::Empty),
        (None, Ok(())) => Ok(reader.frames),
    }
}

/// Requests among these messages.
pub(crate) fn requests(frames: &[Frame]) -> impl Iterator<Item = &Frame> {
    frames.iter().filter(|frame| frame.kind() == Kind::Request)
}

struct Reader<'a> {
    line: &'a Bytes,
    frames: Vec<Frame>,
    /// Ids of the requests in `frames`, in a form that can be compared.
    ids: HashSet<Bytes>,
    /// Why parsing stopped early.
    refused: Option<InvalidBatch>,
}

impl Reader<'_> {
    fn take(&mut self, raw: &RawValue) -> Result<(), InvalidBatch> {
        if self.frames.len() == MOST {
            return Err(InvalidBatch::TooMany);
        }
        let bytes = self.line.slice_ref(raw.get().as_bytes());
        let frame = Frame::parse(bytes).map_err(InvalidBatch::Invalid)?;
        if frame.method() == b"initialize" {
            return Err(InvalidBatch::Handshake);
        }
        if frame.kind() == Kind::Request && !self.ids.insert(message::request_id(&frame)) {
            return Err(InvalidBatch::Repeated);
        }
        self.frames.push(frame);
        Ok(())
    }
}

impl<'de> Visitor<'de> for &mut Reader<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of messages")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut messages: A) -> Result<(), A::Error> {
        while let Some(raw) = messages.next_element::<&RawValue>()? {
            if let Err(refused) = self.take(raw) {
                self.refused = Some(refused);
                return Err(A::Error::custom("refused"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<usize, String> {
        let line = Bytes::copy_from_slice(text.as_bytes());
        parse(&line, version::WITH_BATCHES)
            .map(|frames| frames.len())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_batch_is_not_parsed_beyond_its_limit() {
        let notes = |count| vec![r#"{"method":"notifications/x"}"#; count].join(",");
        assert_eq!(read(&format!(" [{}] ", notes(MOST))), Ok(MOST));
        let refused = InvalidBatch::TooMany.to_string();
        assert_eq!(read(&format!("[{}]", notes(MOST + 1))), Err(refused.clone()));
        assert_eq!(read(&format!("[{},nonsense", notes(MOST + 1))), Err(refused));
    }

    #[test]
    fn a_duplicate_id_is_found_in_any_notation() {
        let pair = |one: &str, other: &str| {
            read(&format!(r#"[{{"id":{one},"method":"m"}},{{"id":{other},"method":"m"}}]"#))
        };
        assert_eq!(pair("1", "\"1\""), Ok(2));
        let refused = InvalidBatch::Repeated.to_string();
        assert_eq!(pair("1", "1"), Err(refused.clone()));
        assert_eq!(pair(r#""a""#, r#""\u0061""#), Err(refused));
    }

    #[test]
    fn malformed_batches_are_refused() {
        for text in ["", "[", "[]", "[1]", "{}", "[{}] x", r#"[[{"method":"m"}]]"#] {
            assert!(read(text).is_err(), "{text}");
        }
        assert!(read(r#"[{"id":1,"method":"initialize"}]"#).is_err());
        let line = Bytes::from_static(br#"[{"method":"m"}]"#);
        assert!(matches!(parse(&line, version::LATEST), Err(InvalidBatch::Version)));
    }
}
