//! JSON objects of which a few members are changed and all others keep their very text.
//!
//! An engine may know members that we don't, and numbers may have more digits than we can hold.
//! Engines find their members without regard to case, and see the same one twice: so do we.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;

/// The members of an object, in their order.
#[derive(Debug, Default)]
pub(super) struct Object<'j>(Vec<(String, Cow<'j, RawValue>)>);

impl<'j> Object<'j> {
    pub(super) fn parse(text: &'j [u8]) -> serde_json::Result<Self> {
        serde_json::from_slice(text)
    }

    /// An empty one for `null`, which is what engines make of it.
    pub(super) fn of(value: &'j RawValue) -> serde_json::Result<Self> {
        let parsed: Option<Self> = serde_json::from_str(value.get())?;
        Ok(parsed.unwrap_or_default())
    }

    /// The members that an engine takes for the one of this name.
    pub(super) fn all<'s>(&'s self, name: &'s str) -> impl Iterator<Item = &'s RawValue> {
        self.0.iter().filter(move |(key, _)| is_same(key, name)).map(|(_, value)| &**value)
    }

    /// The one of this name that counts, as a text.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        self.all(name).last().and_then(|value| serde_json::from_str(value.get()).ok())
    }

    /// Changes every member that an engine takes for the one of this name; `edit` says what it
    /// becomes, or nothing if it may stay.
    pub(super) fn edit<E>(
        &mut self,
        name: &str,
        mut edit: impl FnMut(&RawValue) -> Result<Option<Box<RawValue>>, E>,
    ) -> Result<(), E> {
        for (_, value) in self.0.iter_mut().filter(|(key, _)| is_same(key, name)) {
            if let Some(changed) = edit(value)? {
                *value = Cow::Owned(changed);
            }
        }
        Ok(())
    }

    /// Sets a member by its exact name, as for a map in which case matters.
    pub(super) fn set_exactly(&mut self, name: &str, value: &str) -> serde_json::Result<()> {
        self.0.retain(|(key, _)| key != name);
        self.push(name, &value)
    }

    pub(super) fn push(&mut self, name: &str, value: &impl Serialize) -> serde_json::Result<()> {
        let value = serde_json::value::to_raw_value(value)?;
        self.0.push((name.to_owned(), Cow::Owned(value)));
        Ok(())
    }

    pub(super) fn to_raw(&self) -> serde_json::Result<Box<RawValue>> {
        serde_json::value::to_raw_value(self)
    }
}

impl<'de> Deserialize<'de> for Object<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = Object<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some((key, value)) = map.next_entry::<String, &'de RawValue>()? {
                    members.push((key, Cow::Borrowed(value)));
                }
                Ok(Object(members))
            }
        }

        deserializer.deserialize_map(Members)
    }
}

impl Serialize for Object<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

/// As Go compares names: also by the two letters that fold to ASCII ones.
fn is_same(key: &str, name: &str) -> bool {
    let fold = |letter: char| match letter {
        '\u{17F}' => 's',
        '\u{212A}' => 'k',
        letter => letter.to_ascii_lowercase(),
    };
    key.chars().map(fold).eq(name.chars().map(fold))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_changed_keeps_its_text() {
        let text = br#"{"b": 1.50e400 ,"a":[ 1,  {"x" :null}],"c":12345678901234567890123}"#;
        let mut object = Object::parse(text).unwrap();
        object.push("d", &"new").unwrap();
        let expected =
            r#"{"b":1.50e400,"a":[ 1,  {"x" :null}],"c":12345678901234567890123,"d":"new"}"#;
        assert_eq!(object.to_raw().unwrap().get(), expected);
    }

    #[test]
    fn members_are_found_as_an_engine_finds_them() {
        let text = "{\"labels\":1,\"LABELS\":2,\"Label\u{17F}\":3,\"label\":4}";
        let object = Object::parse(text.as_bytes()).unwrap();
        let found: Vec<&str> = object.all("Labels").map(RawValue::get).collect();
        assert_eq!(found, ["1", "2", "3"]);
    }

    #[test]
    fn only_an_object_is_one() {
        for text in ["", "[]", "1", "null", "{", "{} x", "{\"a\":}"] {
            assert!(Object::parse(text.as_bytes()).is_err(), "{text:?}");
        }
    }
}
