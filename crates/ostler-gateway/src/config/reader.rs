//! Reads values from the JSON syntax tree of a file, and collects problems.
//!
//! Every type that a setting can have implements `Setting`. A value that can't be read is reported to the `Reader` and
//! left out, so that one pass finds all problems. The reader tracks the path of keys down to the current value; each
//! `Problem` has this path, the line and column, and an excerpt of the line.
//!
//! The excerpt must not show secrets: `wrong` hides the marked text, and `wrong_word` shows it, for keys and for values
//! that are never secret.

use jsonc_parser::ast::{ObjectProp, Value};
use jsonc_parser::common::{Range, Ranged};
use ostler::visible::is_hidden;

use super::excerpt::{Excerpt, Marked};
use super::problem::Problem;

/// Problems that are listed; further ones are only counted.
const MAX_PROBLEMS: usize = 200;

/// Longest key that is shown and for which a similar known key is searched, in characters.
const LONGEST_KEY: usize = 64;

/// A type that a value in the file can have.
pub(super) trait Setting: Sized {
    /// Reads the value, or reports a problem and returns `None`.
    fn read(value: &Value<'_>, reader: &mut Reader<'_>) -> Option<Self>;
}

/// A value with the ranges of its key and of itself in the text.
#[derive(Debug)]
pub(super) struct At<T> {
    pub(super) value: T,
    pub(super) key: Range,
    pub(super) range: Range,
}

/// Reading state: the current path, and the problems and notices so far.
#[derive(Debug)]
pub(super) struct Reader<'t> {
    text: &'t str,
    /// Byte offset of the start of each line.
    lines: Vec<usize>,
    /// Keys down to the current value.
    path: Vec<String>,
    pub(super) problems: Vec<Problem>,
    pub(super) more: usize,
    pub(super) notices: Vec<Problem>,
}

impl<'t> Reader<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        let begins = text.match_indices('\n').map(|(at, _)| at + 1);
        let lines = std::iter::once(0).chain(begins).collect();
        let (problems, notices) = (Vec::new(), Vec::new());
        Self { text, lines, path: Vec::new(), problems, more: 0, notices }
    }

    /// Reports a problem with text that may be secret.
    pub(super) fn wrong(&mut self, at: Range, message: &str) {
        self.report(at, Marked::Hidden, message);
    }

    /// Reports a problem with a key, or with a value that is never secret.
    pub(super) fn wrong_word(&mut self, at: Range, message: &str) {
        self.report(at, Marked::Plain, message);
    }

    fn report(&mut self, at: Range, marked: Marked, message: &str) {
        if self.problems.len() == MAX_PROBLEMS {
            self.more += 1;
        } else {
            let problem = self.problem(at, marked, message);
            self.problems.push(problem);
        }
    }

    /// Adds a notice about a key, which does not make the file invalid.
    pub(super) fn notice(&mut self, at: Range, message: &str) {
        if self.notices.len() < MAX_PROBLEMS {
            let notice = self.problem(at, Marked::Plain, message);
            self.notices.push(notice);
        }
    }

    /// Number of problems found so far.
    pub(super) fn found(&self) -> usize {
        self.problems.len() + self.more
    }

    fn problem(&self, at: Range, marked: Marked, message: &str) -> Problem {
        let line = self.lines.partition_point(|begin| *begin <= at.start).saturating_sub(1);
        let begin = self.lines[line];
        let end = self.lines.get(line + 1).map_or(self.text.len(), |next| next - 1);
        let text = &self.text[begin..end];
        let start = (at.start - begin).min(text.len());
        let range = start..(at.end.max(at.start) - begin).min(text.len());
        let column = text[..start].chars().count() + 1;
        let path = self.path.join(".");
        let colon = if path.is_empty() { "" } else { ": " };
        Problem {
            line: line + 1,
            column,
            message: format!("{path}{colon}{message}").replace(is_hidden, " "),
            excerpt: Excerpt::of(text, &range, marked),
        }
    }

    /// Reports a problem with a key, and adds the key to the path.
    pub(super) fn wrong_key(&mut self, key: Range, message: &str) {
        let name = self.text[key.start..key.end].trim_matches('"').to_owned();
        self.within(&name, |reader| reader.wrong_word(key, message));
    }

    /// Keys down to the current value.
    pub(super) fn path(&self) -> Vec<String> {
        self.path.clone()
    }

    /// Runs `look` with another path, for checks after reading.
    pub(super) fn back_at<T>(&mut self, path: Vec<String>, look: impl FnOnce(&mut Self) -> T) -> T {
        let here = std::mem::replace(&mut self.path, path);
        let value = look(self);
        self.path = here;
        value
    }

    /// Runs `read` with a key added to the path.
    pub(super) fn within<T>(&mut self, key: &str, read: impl FnOnce(&mut Self) -> T) -> T {
        // A key such as `"TOKEN=value"` contains a secret by mistake, so only its name is shown.
        let name = key.split_inclusive(['=', ':']).next().unwrap_or_default();
        let rest = if name.len() < key.len() { "…" } else { "" };
        self.path.push(name.chars().take(LONGEST_KEY).collect::<String>() + rest);
        let value = read(self);
        self.path.pop();
        value
    }

    /// Reports a value of the wrong type.
    pub(super) fn expected(&mut self, value: &Value<'_>, what: &str) {
        let found = match value {
            Value::StringLit(_) => "a string",
            Value::NumberLit(_) => "a number",
            Value::BooleanLit(_) => "true or false",
            Value::Object(_) => "an object",
            Value::Array(_) => "a list",
            Value::NullKeyword(_) => "null",
        };
        self.wrong(value.range(), &format!("expected {what}, found {found}"));
    }

    /// Properties of an object. A repeated key is reported, and its first value counts.
    pub(super) fn properties<'v, 'a>(
        &mut self,
        value: &'v Value<'a>,
    ) -> Option<Vec<&'v ObjectProp<'a>>> {
        let Value::Object(object) = value else {
            self.expected(value, "an object");
            return None;
        };
        let mut seen = std::collections::BTreeSet::new();
        let (first, again): (Vec<_>, Vec<_>) =
            object.properties.iter().partition(|property| seen.insert(name_of(property)));
        for property in again {
            let range = property.name.range();
            self.within(name_of(property), |reader| reader.wrong_word(range, "given twice"));
        }
        Some(first)
    }

    /// Reports an unknown key, with the most similar known key if there is one.
    pub(super) fn unknown(&mut self, key: Range, name: &str, known: &[&str], others: &[&str]) {
        let message = match nearest(name, &[known, others].concat()) {
            Some(near) => format!("unknown key; did you mean `{near}`?"),
            None if known.len() <= 8 => format!("unknown key; known are {}", known.join(", ")),
            None => "unknown key; `ostler schema` has all that are known".to_owned(),
        };
        self.wrong_word(key, &message);
    }

    /// Reads a value into its slot; a slot that is already set is a problem. `null` counts as absent.
    pub(super) fn fill<T: Setting>(
        &mut self,
        slot: &mut Option<At<T>>,
        key: Range,
        value: &Value<'_>,
    ) {
        if matches!(value, Value::NullKeyword(_)) {
            return;
        }
        if let Some(read) = T::read(value, self) {
            self.place(slot, At { value: read, key, range: value.range() });
        }
    }

    /// Stores a value; a slot that is already set is a problem.
    pub(super) fn place<T>(&mut self, slot: &mut Option<At<T>>, read: At<T>) {
        if slot.is_some() {
            self.wrong_word(read.key, "another key sets this already");
        } else {
            *slot = Some(read);
        }
    }
}

/// Reads a property as a `T`, converts it and stores it.
pub(super) fn put<T: Setting, U>(
    slot: &mut Option<At<U>>,
    property: &ObjectProp<'_>,
    reader: &mut Reader<'_>,
    convert: impl FnOnce(T) -> U,
) {
    let key = property.name.range();
    let mut read = None;
    reader.fill(&mut read, key, &property.value);
    if let Some(At { value, range, .. }) = read {
        reader.place(slot, At { value: convert(value), key, range });
    }
}

pub(super) fn name_of<'v>(property: &'v ObjectProp<'_>) -> &'v str {
    property.name.as_str()
}

/// The known name that is most similar to `name`, if it is similar enough.
pub fn nearest<'k>(name: &str, known: &[&'k str]) -> Option<&'k str> {
    if name.len() > LONGEST_KEY {
        return None;
    }
    let plain = |name: &str| name.to_lowercase().replace(['_', '-', '.'], "");
    let name = plain(name);
    let distance = |known: &&str| strsim::damerau_levenshtein(&name, &plain(known));
    let best = known.iter().copied().min_by_key(distance)?;
    // At most a third of the characters may differ.
    (distance(&best) <= best.len().div_ceil(3)).then_some(best)
}
