//! The text of JSON: white space and comments between tokens, and the layout of new values.

use crate::tree::Node;
use crate::value::Value;

/// Longest list that is written on one line, in bytes.
const WIDEST: usize = 100;

/// How a file is laid out.
pub(super) struct Layout {
    pub(super) newline: &'static str,
    /// White space of one level.
    pub(super) unit: String,
}

impl Layout {
    pub(super) fn of(text: &str, root: &Node) -> Self {
        let first = root.members().first().and_then(|member| indent(text, member.key_span.start));
        let unit = first.filter(|indent| !indent.is_empty()).unwrap_or("  ").to_owned();
        Self { newline: super::newline(text), unit }
    }

    /// The text of a value. `indent` is that of the line that it begins on; `None` for a value on one line.
    pub(super) fn write(&self, value: &Value, indent: Option<&str>) -> String {
        match value {
            Value::Null => "null".to_owned(),
            Value::Bool(it) => it.to_string(),
            Value::Number(text) | Value::Other(text) => text.clone(),
            Value::String(text) => quoted(text),
            Value::Array(items) => {
                let line = items.iter().map(|item| self.write(item, None)).collect::<Vec<_>>();
                let line = format!("[{}]", line.join(", "));
                match indent {
                    Some(indent) if line.len() > WIDEST => {
                        let write = |inner: &str| {
                            let items = items.iter().map(|item| self.write(item, Some(inner)));
                            items.collect()
                        };
                        self.block(['[', ']'], indent, write)
                    }
                    _ => line,
                }
            }
            Value::Object(members) => {
                let member = |key: &str, value: &Value, inner: Option<&str>| {
                    format!("{}: {}", quoted(key), self.write(value, inner))
                };
                match indent {
                    Some(indent) if !members.is_empty() => {
                        self.block(['{', '}'], indent, |inner| {
                            members
                                .iter()
                                .map(|(key, value)| member(key, value, Some(inner)))
                                .collect()
                        })
                    }
                    _ if members.is_empty() => "{}".to_owned(),
                    _ => {
                        let members = members.iter().map(|(key, value)| member(key, value, None));
                        format!("{{ {} }}", members.collect::<Vec<_>>().join(", "))
                    }
                }
            }
        }
    }

    fn block(
        &self,
        [open, close]: [char; 2],
        indent: &str,
        items: impl Fn(&str) -> Vec<String>,
    ) -> String {
        let inner = format!("{indent}{}", self.unit);
        let separator = format!(",{}{inner}", self.newline);
        let items = items(&inner).join(&separator);
        let newline = self.newline;
        format!("{open}{newline}{inner}{items}{newline}{indent}{close}")
    }
}

/// A string of JSON.
pub(super) fn quoted(text: &str) -> String {
    // Strings can always be written.
    serde_json::to_string(text).unwrap_or_default()
}

/// White space before a byte if nothing else is in front of it on its line.
pub(super) fn indent(text: &str, at: usize) -> Option<&str> {
    let start = line_start(text, at);
    Some(&text[start..at]).filter(|before| is_blank(before))
}

pub(super) fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |newline| newline + 1)
}

/// The end of the line of a byte: its line break or the end of the text.
pub(super) fn line_end(text: &str, at: usize) -> usize {
    text[at..].find(['\n', '\r']).map_or(text.len(), |end| at + end)
}

/// After the line break that begins here, if one does.
pub(super) fn after_newline(text: &str, at: usize) -> usize {
    let rest = &text[at..];
    let length = if rest.starts_with("\r\n") { 2 } else { usize::from(rest.starts_with('\n')) };
    at + length
}

pub(super) fn is_blank(text: &str) -> bool {
    text.chars().all(|c| c == ' ' || c == '\t')
}

/// The next byte from here that is neither white space nor part of a comment.
pub(super) fn significant(text: &str, mut at: usize) -> usize {
    loop {
        let rest = &text[at..];
        let trimmed = rest.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
        at += rest.len() - trimmed.len();
        match comment(trimmed) {
            Some(length) => at += length,
            None => return at,
        }
    }
}

/// The end of what belongs to a line that a value ended on: comments that follow on the same line, and no line break.
/// `None` if something else follows on the line.
pub(super) fn rest_of_line(text: &str, mut at: usize) -> Option<usize> {
    loop {
        let rest = &text[at..];
        let trimmed = rest.trim_start_matches([' ', '\t']);
        let begin = at + rest.len() - trimmed.len();
        if trimmed.is_empty() || trimmed.starts_with(['\n', '\r']) {
            return Some(at);
        }
        let length = comment(trimmed).filter(|length| !trimmed[..*length].contains('\n'))?;
        at = begin + length;
    }
}

/// Length of the comment that a text begins with, without the line break.
pub(super) fn comment(text: &str) -> Option<usize> {
    if text.starts_with("//") {
        return Some(text.find(['\n', '\r']).unwrap_or(text.len()));
    }
    text.starts_with("/*").then(|| text.find("*/").map_or(text.len(), |end| end + 2))
}
