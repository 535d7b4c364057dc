//! Reading and editing files of all formats without touching what does not change.
//!
//! [`Format::read`] gives the value of a whole file, [`Format::edit`] a new text. JSON and YAML are edited by byte ranges of the
//! syntax tree, TOML by `toml_edit` with the lines that it left alone copied from the original. After each edit the new text is
//! read again: it must mean exactly what the edits say, and everything else must mean what it meant before. Otherwise the
//! edit is refused, so a construct that an editor does not know can't be damaged.

mod json;
mod json_edit;
mod json_text;
mod toml;
mod toml_lines;
mod yaml;
mod yaml_edit;
mod yaml_text;

use crate::tree::{Node, Place};
use crate::value::Value;

/// Byte order mark, which some editors write.
pub(crate) const BOM: &str = "\u{feff}";

/// Deepest nesting of values that is read.
const DEEPEST: usize = 128;

/// Syntax of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// JSON; comments and trailing commas are read, and never written.
    Json,
    /// JSON5.
    Json5,
    /// TOML.
    Toml,
    /// YAML, one document.
    Yaml,
}

/// One change of a file. A path is the keys from the top of the file to the value.
#[derive(Clone, Debug)]
pub enum Edit<'a> {
    /// Sets a value, and makes the objects on the way.
    Set(Vec<String>, Value),
    /// Removes a value with its key, if it is there.
    Remove(Vec<String>),
    /// Takes a value over from another text of the same format, as it is written there.
    Copy(Vec<String>, &'a str),
}

/// Why a text can't be read.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct SyntaxError {
    /// Line of the error, from 1.
    pub line: usize,
    /// What is wrong, without any value of the file.
    pub message: String,
}

/// Why a text can't be edited.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// The text can't be read.
    #[error(transparent)]
    Syntax(#[from] SyntaxError),
    /// Something else is where an object should be, or a key is there twice.
    #[error("{} is no object, or is there twice", .0.join("."))]
    Blocked(Vec<String>),
    /// The editor does not know the syntax that is used at this place.
    #[error("{} is written in a way that ostler does not edit", .0.join("."))]
    Unknown(Vec<String>),
    /// The edited text would not mean what it should.
    #[error("the file is written in a way that ostler cannot edit safely")]
    Unsafe,
}

impl Edit<'_> {
    /// The value that is changed.
    pub fn path(&self) -> &[String] {
        match self {
            Self::Set(path, _) | Self::Remove(path) | Self::Copy(path, _) => path,
        }
    }
}

impl Format {
    /// The format that the name of a file suggests.
    pub fn of_name(name: &str) -> Option<Self> {
        match name.rsplit_once('.')?.1 {
            "json" | "jsonc" => Some(Self::Json),
            "json5" => Some(Self::Json5),
            "toml" => Some(Self::Toml),
            "yaml" | "yml" => Some(Self::Yaml),
            _ => None,
        }
    }

    /// The value of a whole text. An empty text is `Null`.
    pub fn read(self, text: &str) -> Result<Value, SyntaxError> {
        Ok(self.tree(text)?.value())
    }

    /// Applies edits, and checks the result. Later edits must not be inside of earlier ones.
    pub fn edit(self, text: &str, edits: &[Edit<'_>]) -> Result<String, EditError> {
        let before = self.read(text)?;
        let wanted = self.model(before, edits)?;
        let bom = if text.starts_with(BOM) { BOM } else { "" };
        let body = &text[bom.len()..];
        let edited = match self {
            Self::Json | Self::Json5 => json_edit::edit(body, self, edits)?,
            Self::Toml => toml::edit(body, edits)?,
            Self::Yaml => yaml_edit::edit(body, edits)?,
        };
        let edited = format!("{bom}{edited}");
        let mut found = self.read(&edited).map_err(|_| EditError::Unsafe)?;
        for edit in edits {
            found.prune(edit.path());
        }
        if found.means(&wanted) { Ok(edited) } else { Err(EditError::Unsafe) }
    }

    /// What the edited text has to mean, without objects that are empty afterwards: TOML can't write them.
    fn model(self, mut value: Value, edits: &[Edit<'_>]) -> Result<Value, EditError> {
        for edit in edits {
            let blocked = || EditError::Blocked(edit.path().to_vec());
            match edit {
                Edit::Set(path, new) => {
                    value.set(path, new.clone()).then_some(()).ok_or_else(blocked)?;
                }
                Edit::Remove(path) => {
                    value.remove(path);
                }
                Edit::Copy(path, from) => {
                    let copied = self.read(from)?.at(path).cloned().ok_or_else(blocked)?;
                    value.set(path, copied).then_some(()).ok_or_else(blocked)?;
                }
            }
        }
        for edit in edits {
            value.prune(edit.path());
        }
        Ok(value)
    }

    /// The error for a value that can only be kept as it is written.
    pub(crate) fn opaque(self, text: &str, path: &[String]) -> SyntaxError {
        let message = format!("`{}` is written with an anchor or a tag", path.join("."));
        let at = self.tree(text).ok().and_then(|tree| match tree.find(path) {
            Place::Member { parent, index } => Some(parent.members()[index].key_span.start),
            _ => None,
        });
        wrong(text, at.unwrap_or(0), message)
    }

    /// The syntax tree. Its places are those of `text`, also with a byte order mark.
    pub(crate) fn tree(self, text: &str) -> Result<Node, SyntaxError> {
        let body = text.strip_prefix(BOM).unwrap_or(text);
        let mut tree = match self {
            Self::Json | Self::Json5 => json::parse(body, self)?,
            Self::Toml => toml::parse(body)?,
            Self::Yaml => yaml::parse(body)?,
        };
        let shift = text.len() - body.len();
        if shift > 0 {
            tree.shift(shift);
        }
        Ok(tree)
    }
}

/// A syntax error at a byte of the text.
fn wrong(text: &str, at: usize, message: impl Into<String>) -> SyntaxError {
    let line = text.get(..at).unwrap_or(text).matches('\n').count() + 1;
    SyntaxError { line, message: message.into() }
}

/// A value as JSON on one line.
pub(crate) fn json_line(value: &Value) -> String {
    json_text::Layout { newline: "\n", unit: String::new() }.write(value, None)
}

/// The line break that a text uses.
fn newline(text: &str) -> &'static str {
    let first = text.find('\n');
    if first.is_some_and(|at| text[..at].ends_with('\r')) { "\r\n" } else { "\n" }
}
