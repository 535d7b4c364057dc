//! The text of new YAML values: objects as blocks, everything else on one line.

use super::json_text::quoted;
use super::yaml::is_number;
use crate::value::Value;

/// Words that a plain scalar must not be.
const RESERVED: &[&str] = &["true", "false", "null", "yes", "no", "on", "off", "y", "n"];

/// How the members of a block are laid out.
pub(super) struct Layout<'t> {
    /// White space of one level.
    pub(super) unit: &'t str,
    pub(super) newline: &'static str,
}

impl Layout<'_> {
    /// Lines of a member: its key, and its value as a block if it is an object.
    pub(super) fn member(&self, key: &str, value: &Value, indent: &str) -> String {
        let (name, newline) = (scalar(key), self.newline);
        match value {
            Value::Object(members) if !members.is_empty() => {
                let inner = format!("{indent}{}", self.unit);
                let lines = members.iter().map(|(key, value)| self.member(key, value, &inner));
                format!("{indent}{name}:{newline}{}", lines.collect::<String>())
            }
            _ => format!("{indent}{name}: {}{newline}", flow(value)),
        }
    }
}

/// A value on one line.
pub(super) fn flow(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(it) => it.to_string(),
        Value::Number(text) | Value::Other(text) => text.clone(),
        Value::String(text) => scalar(text),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(flow).collect::<Vec<_>>().join(", "))
        }
        Value::Object(members) if members.is_empty() => "{}".to_owned(),
        Value::Object(members) => {
            let members =
                members.iter().map(|(key, value)| format!("{}: {}", scalar(key), flow(value)));
            format!("{{{}}}", members.collect::<Vec<_>>().join(", "))
        }
    }
}

/// A text without quotes where YAML can't take it for anything else.
fn scalar(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_/.-".contains(c);
    let begins = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/' || c == '_');
    let is_reserved = RESERVED.iter().any(|word| word.eq_ignore_ascii_case(text));
    if begins && text.chars().all(is_plain) && !is_reserved && !is_number(text) {
        text.to_owned()
    } else {
        quoted(text)
    }
}
