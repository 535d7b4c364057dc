//! Arguments of a tool, as words of the command line: `key=value` pairs, a JSON object, or `-` for one on stdin.

use std::collections::BTreeMap;
use std::io::{self, Read};

use ostler_gateway::config::nearest;
use serde_json::value::{RawValue, to_raw_value};

use crate::offers::Tool;

/// Longest input on stdin, in bytes.
const LONGEST: u64 = 16 << 20;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ArgumentsError {
    #[error(
        "'{0}' is not key=value; give key=value pairs, one JSON object, or - to read one from stdin"
    )]
    NoPair(String),
    #[error("'{0}' is given twice")]
    Twice(String),
    #[error("the arguments are not valid JSON")]
    NotJson(#[source] serde_json::Error),
    #[error("the arguments are not a JSON object")]
    NotObject,
    #[error("stdin has more than {} MiB", LONGEST >> 20)]
    Long,
    #[error("cannot read the arguments from stdin")]
    Unread(#[source] io::Error),
}

/// Arguments as the user gave them.
#[derive(Debug)]
pub(super) enum Given {
    Object(Box<RawValue>),
    Pairs(BTreeMap<String, String>),
}

impl Given {
    /// Reads the words, and stdin if they ask for it.
    pub(super) fn read(words: &[String]) -> Result<Self, ArgumentsError> {
        match words {
            [word] if word == "-" => Self::object(stdin()?),
            [word] if word.trim_start().starts_with(['{', '[']) => Self::object(word.clone()),
            words => Self::pairs(words),
        }
    }

    fn object(text: String) -> Result<Self, ArgumentsError> {
        let object = RawValue::from_string(text).map_err(ArgumentsError::NotJson)?;
        let is_object = object.get().starts_with('{');
        if is_object { Ok(Self::Object(object)) } else { Err(ArgumentsError::NotObject) }
    }

    fn pairs(words: &[String]) -> Result<Self, ArgumentsError> {
        let mut pairs = BTreeMap::new();
        for word in words {
            let (key, value) = word
                .split_once('=')
                .filter(|(key, _)| !key.is_empty())
                .ok_or_else(|| ArgumentsError::NoPair(word.clone()))?;
            if pairs.insert(key.to_owned(), value.to_owned()).is_some() {
                return Err(ArgumentsError::Twice(key.to_owned()));
            }
        }
        Ok(Self::Pairs(pairs))
    }

    /// The arguments as JSON. The value of a pair is a string if the tool's schema says so or if it is no JSON.
    pub(super) fn to_json(&self, tool: &Tool) -> serde_json::Result<Box<RawValue>> {
        let pairs = match self {
            Self::Object(object) => return Ok(object.clone()),
            Self::Pairs(pairs) => pairs,
        };
        let known = tool.arguments();
        let value = |(key, value): (&String, &String)| {
            let argument = known.iter().find(|argument| argument.name == key);
            let is_string = argument.is_some_and(|argument| argument.types().contains(&"string"));
            let json = RawValue::from_string(value.clone()).ok().filter(|_| !is_string);
            Ok((key.clone(), json.map_or_else(|| to_raw_value(value), Ok)?))
        };
        let values: serde_json::Result<BTreeMap<String, Box<RawValue>>> =
            pairs.iter().map(value).collect();
        to_raw_value(&values?)
    }

    /// What may be wrong with them, according to the schema. Only for a call that failed: the server decides.
    pub(super) fn doubts(&self, tool: &Tool) -> Vec<String> {
        let keys: Vec<String> = match self {
            Self::Object(object) => keys_of(object),
            Self::Pairs(pairs) => pairs.keys().cloned().collect(),
        };
        let known = tool.arguments();
        let names: Vec<&str> = known.iter().map(|argument| argument.name).collect();
        let strange = keys.iter().filter(|key| !names.is_empty() && !names.contains(&key.as_str()));
        let strange = strange.map(|key| {
            let near = nearest(key, &names).map(|near| format!("; did you mean '{near}'?"));
            format!("the tool has no argument '{key}'{}", near.unwrap_or_default())
        });
        let is_missing = |name: &str| !keys.iter().any(|key| key == name);
        let missing = known.iter().filter(|one| one.is_required && is_missing(one.name));
        let missing = missing.map(|one| format!("the tool requires the argument '{}'", one.name));
        strange.chain(missing).collect()
    }
}

fn keys_of(object: &RawValue) -> Vec<String> {
    let members: BTreeMap<String, &RawValue> =
        serde_json::from_str(object.get()).unwrap_or_default();
    members.into_keys().collect()
}

fn stdin() -> Result<String, ArgumentsError> {
    let mut text = String::new();
    let mut input = io::stdin().lock().take(LONGEST + 1);
    input.read_to_string(&mut text).map_err(ArgumentsError::Unread)?;
    if text.len() as u64 > LONGEST { Err(ArgumentsError::Long) } else { Ok(text) }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn tool() -> Tool {
        let properties = json!({
            "name": { "type": "string" },
            "maybe": { "anyOf": [{ "type": "string" }, { "type": "null" }] },
            "count": { "type": "integer" },
            "any": {},
        });
        let schema = json!({ "properties": properties, "required": ["name"] });
        let tool = json!({ "name": "t", "inputSchema": schema });
        Tool::parse(&to_raw_value(&tool).unwrap()).unwrap()
    }

    fn given(words: &[&str]) -> Result<Given, ArgumentsError> {
        Given::read(&words.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    fn json_of(words: &[&str]) -> Value {
        serde_json::from_str(given(words).unwrap().to_json(&tool()).unwrap().get()).unwrap()
    }

    #[test]
    fn a_value_is_json_unless_the_schema_says_string() {
        let words = ["name=5", "maybe=null", "count=5", "any=[1, {}]", "other=true", "text=a=b c"];
        let expected = json!({
            "name": "5", "maybe": "null", "count": 5, "any": [1, {}], "other": true, "text": "a=b c",
        });
        assert_eq!(json_of(&words), expected);
        assert_eq!(
            json_of(&["count=", "any=", "other=nope"]),
            json!({ "count": "", "any": "", "other": "nope" })
        );
    }

    #[test]
    fn an_object_is_passed_on_as_it_is() {
        let text = "{\"b\": 1e400, \"a\": 10000000000000000000001}";
        assert_eq!(given(&[text]).unwrap().to_json(&tool()).unwrap().get(), text);
        assert_eq!(json_of(&[]), json!({}));
    }

    #[test]
    fn words_that_are_no_arguments_are_refused() {
        let refusals = [
            (&["plain"][..], "'plain' is not key=value"),
            (&["=x"], "'=x' is not key=value"),
            (&["a=1", "a=2"], "'a' is given twice"),
            (&["{\"a\":"], "not valid JSON"),
            (&["[1]"], "not a JSON object"),
            (&["{}", "a=1"], "'{}' is not key=value"),
            (&["-", "a=1"], "'-' is not key=value"),
        ];
        for (words, message) in refusals {
            let error = given(words).unwrap_err().to_string();
            assert!(error.contains(message), "{words:?}: {error}");
        }
    }

    #[test]
    fn doubts_name_unknown_and_missing_arguments() {
        let doubts = given(&["nmae=x", "count=1"]).unwrap().doubts(&tool());
        assert_eq!(
            doubts,
            [
                "the tool has no argument 'nmae'; did you mean 'name'?",
                "the tool requires the argument 'name'"
            ]
        );
        assert!(given(&["{\"name\": 1}"]).unwrap().doubts(&tool()).is_empty());
    }
}
