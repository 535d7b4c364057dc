//! The clients that ostler knows: where their files are, and how their entries are written.
//!
//! A client is one row of `table`. Nothing else in this crate depends on a client by name: files are found by [`Machine`],
//! entries are read and written as the row's [`Shape`] and [`Variables`] say.

mod places;
mod table;

pub use places::{Machine, NoHome, Os};
pub use table::CLIENTS;

use crate::format::Format;
use crate::value::Value;

/// A client.
#[derive(Debug)]
pub struct Client {
    /// Name on the command line.
    pub id: &'static str,
    /// Name for people.
    pub title: &'static str,
    /// Name of the host whose processes show that the client runs, as `ostler doctor` names hosts.
    pub host: &'static str,
    /// Programs that show that the client is installed.
    pub programs: &'static [&'static str],
    /// Its files, the usual one first.
    pub files: &'static [ClientFile],
    /// How an entry is written.
    pub shape: &'static Shape,
    /// Variables in its values.
    pub variables: Variables,
}

/// A file of a client.
#[derive(Debug)]
pub struct ClientFile {
    /// Whose file it is.
    pub scope: Scope,
    /// Where `path` begins.
    pub base: Base,
    /// Path below `base`.
    pub path: &'static str,
    /// Its syntax.
    pub format: Format,
    /// Where its servers are. A new entry goes to the first [`Section::Keys`] that exists, or to the last.
    pub sections: &'static [Section],
}

/// Whose file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The user's own, for all projects.
    User,
    /// Part of a project, and usually of its repository.
    Project,
}

/// Where a path begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// The home directory.
    Home,
    /// `XDG_CONFIG_HOME` or `~/.config`, also on macOS.
    Config,
    /// The same on Linux; `~/Library/Application Support` on macOS.
    Application,
    /// The directory that a variable names, or this one below the home directory.
    Variable(&'static str, &'static str),
    /// The project.
    Project,
}

/// Keys above the servers of a file.
#[derive(Debug)]
pub enum Section {
    /// These keys.
    Keys(&'static [&'static str]),
    /// The first keys, then any key, then the others.
    Each(&'static [&'static str], &'static [&'static str]),
}

/// How a client writes an entry that starts a program.
#[derive(Debug)]
pub struct Shape {
    /// Program and arguments.
    pub command: CommandShape,
    /// Key of variables.
    pub env: &'static str,
    /// Key of the names of variables that the client passes on, if it has one.
    pub inherit: Option<&'static str>,
    /// Key and value that mark an entry that starts a program, if they are needed.
    pub kind: Option<(&'static str, &'static str)>,
    /// Further members that a new entry needs.
    pub fixed: &'static [(&'static str, Fixed)],
}

/// How a command is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandShape {
    /// The program and a list of arguments, below these keys.
    Words(&'static str, &'static str),
    /// One list below this key.
    List(&'static str),
}

/// A value that every new entry has.
#[derive(Clone, Copy, Debug)]
pub enum Fixed {
    /// `true`.
    True,
    /// A number.
    Number(&'static str),
    /// A list of one text.
    Only(&'static str),
    /// The name of the entry.
    Name,
}

/// Which variables a client fills in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variables {
    /// None: `${` is text.
    Literal,
    /// `${NAME}` and `${NAME:-default}`.
    Braces,
    /// `${env:NAME}`, and places such as `${workspaceFolder}`.
    Editor,
    /// `$NAME` and `${NAME}`, as in a shell.
    Shell,
    /// `{env:NAME}` and `{file:path}`.
    Curly,
    /// Those of ostler.json, which need no translation.
    Ostler,
}

impl Client {
    /// The client with this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        CLIENTS.iter().find(|client| client.id == name)
    }
}

impl Section {
    /// The paths of all objects of a file that hold servers.
    pub(crate) fn paths(&self, file: &Value) -> Vec<Vec<String>> {
        let owned = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>();
        let paths = match self {
            Self::Keys(keys) => vec![owned(keys)],
            Self::Each(above, below) => {
                let members = file.at(above).map_or(&[][..], Value::members);
                let path = |key: &String| [owned(above), vec![key.clone()], owned(below)].concat();
                members.iter().map(|(key, _)| path(key)).collect()
            }
        };
        paths
            .into_iter()
            .filter(|path| !file.at(path).map_or(&[][..], Value::members).is_empty())
            .collect()
    }
}

impl Section {
    /// The keys down to a value that is only known as it is written, and may hold servers.
    pub(crate) fn opaque(&self, file: &Value) -> Option<Vec<String>> {
        let (Self::Keys(keys) | Self::Each(keys, _)) = self;
        let is_opaque = |depth: &usize| matches!(file.at(&keys[..*depth]), Some(Value::Other(_)));
        let depth = (1..=keys.len()).find(is_opaque)?;
        Some(keys[..depth].iter().map(|key| (*key).to_owned()).collect())
    }
}

impl Fixed {
    pub(crate) fn value(self, name: &str) -> Value {
        match self {
            Self::True => Value::Bool(true),
            Self::Number(text) => Value::Number(text.to_owned()),
            Self::Only(text) => Value::strings([text]),
            Self::Name => Value::from(name),
        }
    }
}
