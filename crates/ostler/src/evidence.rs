//! What a backend tells of an instance: lines for people, JSON fields for programs.
//!
//! Only the backend knows what its instances are made of, so it chooses the words and the fields. Commands pass both
//! on without interpreting them.

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::identity::Process;
use crate::ledger::Entry;

/// JSON fields, by name.
pub type Fields = Map<String, Value>;

/// A ledger entry of a dead owner, with what its backend found, before anything is ended.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// The ledger entry.
    pub entry: Entry,
    /// What was found.
    pub traces: Traces,
}

/// What was found of an instance whose owner is dead.
#[derive(Clone, Debug, Default)]
pub struct Traces {
    /// For people: a label and its value.
    pub lines: Vec<(&'static str, String)>,
    /// The same for programs.
    pub fields: Fields,
    /// Whether a guardian is ending it; a sweep leaves the instance to that guardian.
    pub is_tended: bool,
}

impl Traces {
    /// Traces that a sentence describes.
    pub fn described(text: String) -> Self {
        let fields = Fields::from_iter([("others".to_owned(), json!([text]))]);
        Self { lines: vec![("also", text)], fields, is_tended: false }
    }
}

/// Something that people can name and that belongs to an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// What it is to the instance.
    pub role: Role,
    /// What it is called, for people.
    pub title: String,
    /// What it is, for programs.
    pub fields: Fields,
}

impl Part {
    /// A process.
    pub fn process(process: &Process, role: Role) -> Self {
        let title = format!("process {} ({})", process.pid, process.name);
        Self { role, title, fields: Fields::from_iter([("process".to_owned(), json!(process))]) }
    }
}

/// What a part is to its instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Role {
    /// The server itself.
    Server,
    /// Caused by the server.
    Descendant,
    /// Holds the server, and ends what is left of it.
    Guardian,
    /// Has started the server.
    Owner,
}
