//! Layout of JSON text. Key order, numbers and strings stay as they were written.
//!
//! Text of servers is kept as they sent it (`RawValue`), with any whitespace between tokens. So everything that is printed
//! or sent is laid out here first: after that, line breaks are layout and every other hidden character is inside a string.

use ostler::visible::is_hidden;

/// Whitespace of JSON.
const BLANK: [char; 4] = [' ', '\t', '\n', '\r'];
/// Characters that end a number or a word.
const DELIMITERS: [char; 8] = [',', ':', '}', ']', ' ', '\t', '\n', '\r'];
/// Deeper values are not indented, so that the output grows linearly with the input.
const DEEPEST: usize = 64;

/// Tokens of valid JSON, without the whitespace between them.
struct Tokens<'a>(&'a str);

/// JSON on one line, without whitespace between tokens. The input must be valid.
pub(crate) fn compact(json: &str) -> String {
    Tokens(json).collect()
}

/// JSON with one member or item on each line. The input must be valid.
pub(crate) fn pretty(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    let (mut depth, mut is_opened) = (0_usize, false);
    for token in Tokens(json) {
        let is_closing = matches!(token, "}" | "]");
        depth = depth.saturating_sub(usize::from(is_closing));
        if is_closing != is_opened {
            new_line(&mut text, depth);
        }
        text.push_str(token);
        is_opened = matches!(token, "{" | "[");
        depth += usize::from(is_opened);
        match token {
            "," => new_line(&mut text, depth),
            ":" => text.push(' '),
            _ => {}
        }
    }
    text
}

fn new_line(text: &mut String, depth: usize) {
    if depth <= DEEPEST {
        text.push('\n');
        text.extend(std::iter::repeat_n("  ", depth));
    }
}

/// JSON with all hidden characters escaped. The input must be the output of [`compact`] or [`pretty`].
pub(crate) fn escaped(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for c in json.chars() {
        if is_hidden(c) && c != '\n' {
            let mut units = [0; 2];
            let units = c.encode_utf16(&mut units).iter();
            escaped.extend(units.map(|unit| format!("\\u{unit:04x}")));
        } else {
            escaped.push(c);
        }
    }
    escaped
}

impl<'a> Iterator for Tokens<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let text = self.0.trim_start_matches(BLANK);
        let length = match text.as_bytes().first()? {
            b'"' => string_length(text),
            b'{' | b'}' | b'[' | b']' | b',' | b':' => 1,
            _ => text.find(DELIMITERS).unwrap_or(text.len()),
        };
        let (token, rest) = text.split_at(length);
        self.0 = rest;
        Some(token)
    }
}

/// Length of the string at the start of the text, with its quotes.
fn string_length(text: &str) -> usize {
    let mut is_escaped = false;
    let is_end = |byte: &u8| {
        let is_end = *byte == b'"' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        is_end
    };
    let inside = text.as_bytes()[1..].iter().position(is_end);
    inside.map_or(text.len(), |inside| inside + 2)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const SPACED: &str =
        "\t{ \"b\\\"]\" :\r\n[1.50 , true,{}, [ ] ,null],\t\"a\":{\"\u{202e}\\\\\":-1e400}}\n";

    #[test]
    fn layout_equals_that_of_serde() {
        let values = [json!({ "a": [1, { "b": [] }, {}], "c": "x\"{,\\" }), json!([]), json!("s")];
        for value in values {
            let pretty_text = serde_json::to_string_pretty(&value).unwrap();
            assert_eq!(pretty(&value.to_string()), pretty_text);
            assert_eq!(compact(&pretty_text), value.to_string());
        }
    }

    #[test]
    fn order_and_numbers_are_kept_and_whitespace_is_not() {
        let text = "{\"b\\\"]\":[1.50,true,{},[],null],\"a\":{\"\u{202e}\\\\\":-1e400}}";
        assert_eq!(compact(SPACED), text);
        assert_eq!(compact(&pretty(SPACED)), text);
        assert!(!escaped(&pretty(SPACED)).contains(['\t', '\r', '\u{202e}']));
    }

    #[test]
    fn deep_nesting_grows_linearly() {
        let depth = 100_000;
        let deep = "[".repeat(depth) + &"]".repeat(depth);
        assert!(pretty(&deep).len() < 3 * deep.len());
    }

    #[test]
    fn escaping_does_not_change_the_meaning() {
        let all: String = (0..=0x10_ffff).filter_map(char::from_u32).collect();
        let escaped = escaped(&pretty(&serde_json::to_string(&[&all]).unwrap()));
        assert!(!escaped.contains(|c| is_hidden(c) && c != '\n'));
        assert_eq!(serde_json::from_str::<Value>(&escaped).unwrap(), json!([all]));
    }
}
