//! JSON objects in which single members can be replaced while all others keep their exact text.
//!
//! The exact text matters because an engine may know members that we don't, and numbers may have more digits than we
//! can represent. Engines match member names without regard to case. If a member occurs twice, some engines take the
//! last one, some merge both, and some keep the first if the last is `null`. No client needs that, so such an object is
//! refused.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;

use super::edit::EditError;

/// The members of an object, in order. No two have exactly the same name.
#[derive(Debug, Default)]
pub(super) struct JsonObject<'j>(Vec<(String, Cow<'j, RawValue>)>);

impl<'j> JsonObject<'j> {
    pub(super) fn parse(text: &'j [u8]) -> serde_json::Result<Self> {
        serde_json::from_slice(text)
    }

    /// Parses an object. `null` becomes an empty object, as in the engines.
    pub(super) fn of(value: &'j RawValue) -> serde_json::Result<Self> {
        let parsed: Option<Self> = serde_json::from_str(value.get())?;
        Ok(parsed.unwrap_or_default())
    }

    /// All members, by their exact names.
    pub(super) fn members(&self) -> impl Iterator<Item = (&str, &RawValue)> {
        self.0.iter().map(|(name, value)| (name.as_str(), &**value))
    }

    /// The member that an engine reads under this name, without regard to case.
    pub(super) fn get(&self, name: &str) -> Result<Option<&RawValue>, EditError> {
        Ok(self.position(name)?.map(|at| &*self.0[at].1))
    }

    /// The same as a string; `None` also for `null`.
    pub(super) fn text(&self, name: &str) -> Result<Option<String>, EditError> {
        let Some(value) = self.get(name)? else { return Ok(None) };
        Ok(serde_json::from_str(value.get())?)
    }

    /// Replaces the member that an engine reads under this name, if there is one. `edit` returns the new value, or
    /// `None` to keep the old one.
    pub(super) fn edit(
        &mut self,
        name: &str,
        edit: impl FnOnce(&RawValue) -> Result<Option<Box<RawValue>>, EditError>,
    ) -> Result<(), EditError> {
        if let Some(at) = self.position(name)?
            && let Some(changed) = edit(&self.0[at].1)?
        {
            self.0[at].1 = Cow::Owned(changed);
        }
        Ok(())
    }

    fn position(&self, name: &str) -> Result<Option<usize>, EditError> {
        let mut found = self.0.iter().enumerate().filter(|(_, (key, _))| is_same(key, name));
        let first = found.next().map(|(at, _)| at);
        if found.next().is_some() { Err(EditError::Twice(name.to_owned())) } else { Ok(first) }
    }

    /// Sets a member by its exact name.
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

impl<'de> Deserialize<'de> for JsonObject<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = JsonObject<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let (mut members, mut names) = (Vec::new(), HashSet::new());
                while let Some((key, value)) = map.next_entry::<String, &'de RawValue>()? {
                    if !names.insert(key.clone()) {
                        return Err(A::Error::custom(format_args!("it has '{key}' twice")));
                    }
                    members.push((key, Cow::Borrowed(value)));
                }
                Ok(JsonObject(members))
            }
        }

        deserializer.deserialize_map(Members)
    }
}

impl Serialize for JsonObject<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

/// Compares names as Go's JSON decoder does: without regard to case, and with the two letters outside of ASCII that
/// fold to ASCII.
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
    fn unchanged_members_keep_their_text() {
        let text = br#"{"b": 1.50e400 ,"a":[ 1,  {"x" :null}],"c":12345678901234567890123}"#;
        let mut object = JsonObject::parse(text).unwrap();
        object.push("d", &"new").unwrap();
        let expected =
            r#"{"b":1.50e400,"a":[ 1,  {"x" :null}],"c":12345678901234567890123,"d":"new"}"#;
        assert_eq!(object.to_raw().unwrap().get(), expected);
    }

    #[test]
    fn members_are_found_as_an_engine_finds_them() {
        for key in ["Labels", "labels", "LABELS", "Label\u{17F}", "\\u004cabel\\u0073"] {
            let text = format!("{{\"label\":1,\"{key}\":\"x\"}}");
            let object = JsonObject::parse(text.as_bytes()).unwrap();
            assert_eq!(object.text("Labels").unwrap().as_deref(), Some("x"), "{key}");
        }
    }

    #[test]
    fn duplicate_members_are_refused() {
        let object = JsonObject::parse(br#"{"labels":1,"LABELS":2,"other":3}"#).unwrap();
        assert!(matches!(object.get("Labels"), Err(EditError::Twice(_))));
        assert!(object.get("Other").is_ok());
        for text in [r#"{"a":1,"a":null}"#, r#"{"a":1,"\u0061":2}"#] {
            let error = JsonObject::parse(text.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with("it has 'a' twice"), "{error}");
        }
    }

    #[test]
    fn only_objects_are_accepted() {
        for text in ["", "[]", "1", "null", "{", "{} x", "{\"a\":}"] {
            assert!(JsonObject::parse(text.as_bytes()).is_err(), "{text:?}");
        }
    }
}
