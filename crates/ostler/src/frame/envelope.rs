//! Parses the envelope of a message: its top-level members, as borrowed text.

use std::fmt;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor,
};
use serde_json::value::RawValue;

use super::{InvalidFrame, Kind};
use crate::json::{Likeness, likeness};

/// The keys of JSON-RPC, in the order of [`Envelope::parts`].
const KEYS: [&str; 6] = ["id", "method", "params", "result", "error", "jsonrpc"];

/// The JSON-RPC members of a message.
#[derive(Default)]
pub(super) struct Envelope<'a> {
    /// One for each of [`KEYS`]. A member with the value `null` is present.
    parts: [Option<&'a RawValue>; KEYS.len()],
    /// The first key that appears twice, or in a spelling that only some parsers take for it.
    ambiguous: Option<&'static str>,
}

impl<'a> Envelope<'a> {
    pub(super) fn read(text: &'a str) -> Result<Self, InvalidFrame> {
        let envelope: Self = serde_json::from_str(text).map_err(InvalidFrame::NotJson)?;
        match envelope.ambiguous {
            Some(key) => Err(InvalidFrame::Ambiguous(key)),
            None => Ok(envelope),
        }
    }

    pub(super) fn id(&self) -> Option<&'a RawValue> {
        self.parts[0]
    }

    pub(super) fn method(&self) -> Option<&'a RawValue> {
        self.parts[1]
    }

    /// The parameters, the result or the error.
    pub(super) fn body(&self) -> Option<&'a RawValue> {
        let [_, _, params, result, error, _] = self.parts;
        params.or(result).or(error)
    }

    pub(super) fn is_error(&self) -> bool {
        self.parts[4].is_some()
    }

    pub(super) fn kind(&self) -> Result<Kind, InvalidFrame> {
        let [id, method, _, result, error, _] = self.parts;
        let is_answer = match (result, error) {
            (Some(_), Some(_)) => return Err(InvalidFrame::NotAMessage),
            (result, error) => result.or(error).is_some(),
        };
        match (method, id) {
            (Some(_), _) if is_answer => Err(InvalidFrame::NotAMessage),
            (Some(_), None) => Ok(Kind::Notification),
            (Some(_), Some(id)) if is_plain(id) => Ok(Kind::Request),
            // An error response to an unreadable request has a null id.
            (None, Some(id)) if is_answer && (is_plain(id) || id.get() == "null") => {
                Ok(Kind::Answer)
            }
            (None, None) => Err(InvalidFrame::NotAMessage),
            (None, Some(_)) if !is_answer => Err(InvalidFrame::NotAMessage),
            (_, Some(_)) => Err(InvalidFrame::Id),
        }
    }
}

impl<'de> Deserialize<'de> for Envelope<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Members)
    }
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Envelope<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut envelope = Envelope::default();
        while let Some(key) = map.next_key_seed(Keys)? {
            let ambiguous = if let Key::Known(index) = key {
                let value = map.next_value::<&RawValue>()?;
                envelope.parts[index].replace(value).map(|_| KEYS[index])
            } else {
                map.next_value::<IgnoredAny>()?;
                if let Key::Alike(name) = key { Some(name) } else { None }
            };
            envelope.ambiguous = envelope.ambiguous.or(ambiguous);
        }
        Ok(envelope)
    }
}

/// A key of the message, compared with [`KEYS`].
enum Key {
    Known(usize),
    /// Some parsers take it for this one.
    Alike(&'static str),
    Other,
}

/// Classifies a key without allocating.
struct Keys;

impl<'de> DeserializeSeed<'de> for Keys {
    type Value = Key;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Key, D::Error> {
        // As bytes, because a lone surrogate can be decoded only that way.
        deserializer.deserialize_bytes(self)
    }
}

impl Visitor<'_> for Keys {
    type Value = Key;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_bytes<E: Error>(self, key: &[u8]) -> Result<Key, E> {
        if let Some(index) = KEYS.iter().position(|name| name.as_bytes() == key) {
            return Ok(Key::Known(index));
        }
        let key = String::from_utf8_lossy(key);
        let alike = KEYS.iter().find(|name| likeness(&key, name) == Likeness::Alike);
        match alike {
            Some(name) => Ok(Key::Alike(name)),
            // Reading as bytes accepts unescaped control characters, which JSON forbids.
            None if key.contains(|letter: char| letter < ' ') => {
                Err(Error::custom("a control character in a key"))
            }
            None => Ok(Key::Other),
        }
    }
}

/// Whether an id is a string or a number. Code that needs a whole number checks that itself.
fn is_plain(id: &RawValue) -> bool {
    let text = id.get().as_bytes();
    text.first().is_some_and(|first| *first == b'"' || *first == b'-' || first.is_ascii_digit())
}
