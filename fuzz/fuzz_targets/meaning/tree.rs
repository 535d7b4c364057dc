//! JSON as `serde_json` reads it, with all members of an object in their order, also if two have the same key.

use std::fmt;

use ostler::json::{Likeness, likeness};
use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Objects and arrays that are deeper stay text.
const DEEPEST: usize = 100;

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tree {
    Object(Vec<(String, Tree)>),
    Array(Vec<Tree>),
    /// Anything else, as it is written.
    Text(String),
}

/// What is under a key.
pub enum Found<'a> {
    Nothing,
    /// The only member with that key, and none has one that is like it.
    One(&'a Tree),
    /// Several members, of which different parsers may take different ones; or one that only some take.
    Unclear,
}

impl Tree {
    pub fn parse(text: &str) -> Option<Self> {
        let raw: &RawValue = serde_json::from_str(text).ok()?;
        Some(Self::of(raw, 0))
    }

    fn of(raw: &RawValue, depth: usize) -> Self {
        let text = raw.get();
        let below = |raw: &RawValue| Self::of(raw, depth + 1);
        match text.as_bytes().first() {
            Some(b'{') if depth < DEEPEST => {
                let mut reader = serde_json::Deserializer::from_str(text);
                let members = reader.deserialize_map(Members).expect("an object");
                Self::Object(members.into_iter().map(|(key, raw)| (key, below(raw))).collect())
            }
            Some(b'[') if depth < DEEPEST => {
                let items: Vec<&RawValue> = serde_json::from_str(text).expect("an array");
                Self::Array(items.into_iter().map(below).collect())
            }
            _ => Self::Text(text.to_owned()),
        }
    }

    pub fn members(&self) -> &[(String, Tree)] {
        match self {
            Self::Object(members) => members,
            Self::Array(_) | Self::Text(_) => &[],
        }
    }

    pub fn get(&self, key: &str) -> Found<'_> {
        let alike = |own: &str| likeness(own, key) != Likeness::Different;
        let found: Vec<_> = self.members().iter().filter(|(own, _)| alike(own)).collect();
        match found[..] {
            [] => Found::Nothing,
            [(own, value)] if own == key => Found::One(value),
            _ => Found::Unclear,
        }
    }

    pub fn find(&self, path: &[&str]) -> Found<'_> {
        path.iter().fold(Found::One(self), |found, key| match found {
            Found::One(tree) => tree.get(key),
            found => found,
        })
    }

    /// Puts another value in the place of the one that is found.
    pub fn replace(&mut self, path: &[&str], value: &str) {
        let Some((key, path)) = path.split_first() else {
            *self = Self::parse(value).expect("JSON");
            return;
        };
        let Self::Object(members) = self else { panic!("no object has {key}") };
        let member = members.iter_mut().find(|(own, _)| own == key);
        member.expect("a member").1.replace(path, value);
    }

    /// Removes what could be taken for this member of the object under `path`.
    pub fn remove(&mut self, path: &[&str], name: &str) {
        let Self::Object(members) = self else { return };
        match path.split_first() {
            None => members.retain(|(own, _)| likeness(own, name) == Likeness::Different),
            Some((key, path)) => {
                let member = members.iter_mut().find(|(own, _)| own == key);
                member.expect("a member").1.remove(path, name);
            }
        }
    }
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Vec<(String, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(key) = map.next_key_seed(Key)? {
            members.push((key, map.next_value()?));
        }
        Ok(members)
    }
}

/// A key, in which half of a surrogate pair is U+FFFD.
struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        deserializer.deserialize_bytes(self)
    }
}

impl Visitor<'_> for Key {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_bytes<E: Error>(self, key: &[u8]) -> Result<String, E> {
        Ok(String::from_utf8_lossy(key).into_owned())
    }
}
