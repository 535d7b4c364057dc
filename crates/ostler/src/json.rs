//! Scans JSON objects as text, without building values.
//!
//! `serde_json` validates a message once, in [`Frame::parse`](crate::Frame::parse). After that, parts are found as byte
//! ranges of the text, so that they can be replaced without touching the rest. [`members`] walks over one object and
//! skips the values. [`likeness`] tells whether some parser would take a key for another one, so that messages which two
//! parsers would read differently can be refused.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use memchr::{memchr, memchr2};
use serde::Deserializer;
use serde::de::{Error, Visitor};

/// One member of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member<'a> {
    /// Its key, decoded; invalid Unicode is replaced by U+FFFD.
    pub key: Cow<'a, str>,
    /// Byte range of key and value in the whole text.
    pub edges: Range<usize>,
    /// Byte range of its value.
    pub value: Range<usize>,
}

/// Whether parsers take a key for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Likeness {
    /// Every parser does.
    Same,
    /// Lenient parsers do.
    Alike,
    /// No known parser does.
    Different,
}

/// Calls `each` for the members of the object in the byte range `within`, in order.
///
/// The text must be valid JSON. Returns `None` if there is no object at `within`. If the text is invalid, `each` may
/// have been called for some members before.
pub fn members<'a>(
    text: &'a [u8],
    within: Range<usize>,
    mut each: impl FnMut(Member<'a>),
) -> Option<()> {
    let text = text.get(..within.end)?;
    let mut at = blank(text, within.start);
    if *text.get(at)? != b'{' {
        return None;
    }
    at = blank(text, at + 1);
    if *text.get(at)? == b'}' {
        return Some(());
    }
    loop {
        let start = at;
        let end = string(text, start)?;
        at = blank(text, end);
        if *text.get(at)? != b':' {
            return None;
        }
        let value = blank(text, at + 1);
        at = skip(text, value)?;
        each(Member { key: key(&text[start..end])?, edges: start..at, value: value..at });
        at = blank(text, at);
        match text.get(at)? {
            b',' => at = blank(text, at + 1),
            b'}' => return Some(()),
            _ => return None,
        }
    }
}

/// Byte range of the value of the only member with this key; `None` if there is none, or another member that some
/// parser would take for it.
pub fn find(text: &[u8], within: Range<usize>, name: &str) -> Option<Range<usize>> {
    let mut found = None;
    let mut is_clear = true;
    members(text, within, |member| match likeness(&member.key, name) {
        Likeness::Same => is_clear &= found.replace(member.value).is_none(),
        Likeness::Alike => is_clear = false,
        Likeness::Different => {}
    })?;
    found.filter(|_| is_clear)
}

/// Whether a parser might take `key` for `name`, which must be ASCII.
///
/// Some parsers ignore case, including non-ASCII letters that fold to ASCII (Go's `encoding/json`). Others ignore `_`
/// and `-` (its successor, and models with several naming styles), everything after a NUL, or invalid Unicode.
pub fn likeness(key: &str, name: &str) -> Likeness {
    if key == name {
        return Likeness::Same;
    }
    let is_alike = if key.is_ascii() {
        folded_ascii(key).eq(folded_ascii(name))
    } else {
        folded(key).eq(folded(name))
    };
    if is_alike { Likeness::Alike } else { Likeness::Different }
}

/// Fast version of [`folded`] for ASCII keys.
fn folded_ascii(text: &str) -> impl Iterator<Item = u8> {
    let bytes = text.bytes().take_while(|byte| *byte != 0);
    bytes.filter(|byte| !b"_-".contains(byte)).map(|byte| byte.to_ascii_lowercase())
}

/// Upper-cases and then lower-cases each letter: some letters reach ASCII by only one of the two mappings.
fn folded(text: &str) -> impl Iterator<Item = char> {
    /// Remains when a dotted capital I is lower-cased.
    const DOT_ABOVE: char = '\u{307}';
    let letters = text.chars().take_while(|letter| *letter != '\0');
    let folded = letters.flat_map(char::to_uppercase).flat_map(char::to_lowercase);
    folded.filter(|letter| !['_', '-', DOT_ABOVE, char::REPLACEMENT_CHARACTER].contains(letter))
}

/// Index of the first non-blank byte from `at` on.
fn blank(text: &[u8], at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    at + rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n')).count()
}

/// End of the value that begins at `at`.
fn skip(text: &[u8], at: usize) -> Option<usize> {
    match text.get(at)? {
        b'"' => string(text, at),
        b'{' | b'[' => nested(text, at),
        _ => {
            let rest = &text[at..];
            let end = rest.iter().position(|byte| b",]} \t\r\n".contains(byte));
            Some(at + end.unwrap_or(rest.len()))
        }
    }
}

/// End of the string that begins at `at`.
fn string(text: &[u8], at: usize) -> Option<usize> {
    /// For strings up to this length, a byte loop is faster than setting up `memchr`.
    const SHORT: usize = 24;
    if *text.get(at)? != b'"' {
        return None;
    }
    let mut at = at + 1;
    for _ in 0..SHORT {
        match text.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    loop {
        let rest = text.get(at..)?;
        let found = memchr2(b'"', b'\\', rest)?;
        match rest[found] {
            b'"' => return Some(at + found + 1),
            _ => at += found + 2,
        }
    }
}

/// End of the object or array that begins at `at`. Not recursive, so nesting depth needs no stack.
fn nested(text: &[u8], mut at: usize) -> Option<usize> {
    let mut depth = 0_usize;
    loop {
        let rest = text.get(at..)?;
        let found =
            rest.iter().position(|byte| matches!(byte, b'"' | b'{' | b'[' | b'}' | b']'))?;
        at += found;
        match rest[found] {
            b'"' => {
                at = string(text, at)?;
                continue;
            }
            b'{' | b'[' => depth += 1,
            _ => depth -= 1,
        }
        at += 1;
        if depth == 0 {
            return Some(at);
        }
    }
}

/// Decodes a quoted key.
fn key(quoted: &[u8]) -> Option<Cow<'_, str>> {
    struct Text;

    impl Visitor<'_> for Text {
        type Value = String;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string")
        }

        fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<String, E> {
            Ok(String::from_utf8_lossy(bytes).into_owned())
        }
    }

    let bare = &quoted[1..quoted.len() - 1];
    if memchr(b'\\', bare).is_none() {
        // Faster than `from_utf8_lossy` where nothing has to be replaced.
        let valid = std::str::from_utf8(bare).map(Cow::Borrowed);
        return Some(valid.unwrap_or_else(|_| String::from_utf8_lossy(bare)));
    }
    // As bytes, because a lone surrogate can be decoded only that way.
    serde_json::Deserializer::from_slice(quoted).deserialize_bytes(Text).ok().map(Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Option<Vec<(String, &str)>> {
        let mut found = Vec::new();
        members(text.as_bytes(), 0..text.len(), |member| {
            assert!(text[member.edges].ends_with(&text[member.value.clone()]));
            found.push((member.key.into_owned(), &text[member.value]));
        })?;
        Some(found)
    }

    #[test]
    fn members_are_found_in_order() {
        let text =
            r#" { "a" : 1 ,"b\u0062\ud800":"x\"}\\","":[{"c":"]"},[]] , "n":null,"t":{"x":1} } "#;
        let found = all(text).unwrap();
        let expected = [
            ("a", "1"),
            ("bb\u{fffd}\u{fffd}\u{fffd}", r#""x\"}\\""#),
            ("", r#"[{"c":"]"},[]]"#),
            ("n", "null"),
            ("t", r#"{"x":1}"#),
        ];
        assert!(found.iter().map(|(key, value)| (key.as_str(), *value)).eq(expected), "{found:?}");
        assert_eq!(all("{}").unwrap(), []);
    }

    #[test]
    fn only_an_object_has_members() {
        for text in [
            "",
            "[]",
            "1",
            "null",
            "\"{}\"",
            "{",
            "{\"a\"",
            "{\"a\":",
            "{\"a\":1",
            "{1:2}",
            "{\"a\":[}",
        ] {
            assert_eq!(all(text), None, "{text}");
        }
    }

    #[test]
    fn keys_that_some_parser_confuses_are_alike() {
        let alike = [
            "progresstoken",
            "PROGRESSTOKEN",
            "progress_token",
            "Progress-Token",
            "progreſsToken",
            "progreßToken",
            "progressTo\u{212a}en",
            "progressToken\0",
            "progressToken\0x",
            "\u{fffd}progressToken",
        ];
        for key in alike {
            assert_eq!(likeness(key, "progressToken"), Likeness::Alike, "{key:?}");
        }
        assert_eq!(likeness("progressToken", "progressToken"), Likeness::Same);
        for key in
            ["", "progress", "progressTokens", "progress Token", "pröressToken", "\0progressToken"]
        {
            assert_eq!(likeness(key, "progressToken"), Likeness::Different, "{key:?}");
        }
        for (key, name) in
            [("meta", "_meta"), ("\u{131}d", "id"), ("\u{130}D", "id"), ("URİ", "uri")]
        {
            assert_eq!(likeness(key, name), Likeness::Alike, "{key:?}");
        }
    }

    #[test]
    fn an_ambiguous_key_is_not_found() {
        let find =
            |text: &str| find(text.as_bytes(), 0..text.len(), "name").map(|at| text[at].to_owned());
        assert_eq!(find(r#"{"x":1,"n\u0061me":"a"}"#).as_deref(), Some("\"a\""));
        for text in [r#"{"x":1}"#, r#"{"name":1,"name":2}"#, r#"{"name":1,"Name":2}"#, "[]"] {
            assert_eq!(find(text), None, "{text}");
        }
    }
}
