//! ostler.json: which servers it has, and edits of it.

use std::collections::BTreeMap;
use std::path::Path;

use crate::clients::Client;
use crate::entry::{Found, Unusable};
use crate::files::{Document, FileError};
use crate::format::{Edit, EditError, Format, SyntaxError, json_line};
use crate::inventory;
use crate::server::{Fingerprint, Server};
use crate::value::Value;

/// Key of the servers.
const SERVERS: &str = "mcpServers";

/// Judges a configuration: `Err` has all that is wrong with it.
pub type Check<'c> = &'c dyn Fn(&str) -> Result<(), String>;

/// ostler.json and the changes that it will get.
#[derive(Debug)]
pub struct Configuration {
    document: Document,
    /// Servers that it has or gets, by name.
    servers: BTreeMap<String, Option<Fingerprint>>,
    /// Paths of those that it has.
    paths: BTreeMap<String, Vec<String>>,
    edits: Vec<Edit<'static>>,
}

/// Why ostler.json can't be edited.
#[derive(Debug, thiserror::Error)]
pub enum ConfigurationError {
    /// It can't be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// It is no JSON.
    #[error("cannot read {path}")]
    Syntax {
        /// The file.
        path: String,
        /// What is wrong.
        source: SyntaxError,
    },
    /// It can't be edited.
    #[error("cannot edit {path}")]
    Edit {
        /// The file.
        path: String,
        /// Why.
        source: EditError,
    },
    /// There is a server with this name.
    #[error("{path} has a server called {name}; `ostler remove {name}` removes it")]
    Exists {
        /// The file.
        path: String,
        /// The name.
        name: String,
    },
    /// There is no server with this name.
    #[error("{path} has no server called {name}")]
    Missing {
        /// The file.
        path: String,
        /// The name.
        name: String,
    },
    /// The changed file would not be valid.
    #[error("{path} would not be valid: {reason}")]
    Invalid {
        /// The file.
        path: String,
        /// All that is wrong.
        reason: String,
    },
}

/// How a server got its name in ostler.json.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taking {
    /// It is new.
    Added,
    /// It has the same server already, under the name that it has there.
    Known,
    /// It has another server with the name, so it gets another one.
    Renamed,
}

impl Configuration {
    /// Reads ostler.json, or begins a new one.
    pub fn open(path: &Path) -> Result<Self, ConfigurationError> {
        let document = Document::read(path)?;
        let value = Format::Json.read(document.text()).map_err(|source| {
            ConfigurationError::Syntax { path: path.display().to_string(), source }
        })?;
        let (mut servers, mut paths) = (BTreeMap::new(), BTreeMap::new());
        for listed in inventory::of_ostler(&value, document.path()) {
            let fingerprint = match &listed.found {
                Found::Server(taken) | Found::Wrapped(taken) => Some(taken.server.fingerprint()),
                _ => None,
            };
            servers.insert(listed.name().to_owned(), fingerprint);
            paths.insert(listed.name().to_owned(), listed.path);
        }
        Ok(Self { document, servers, paths, edits: Vec::new() })
    }

    /// Its file.
    pub fn document(&self) -> &Document {
        &self.document
    }

    /// Takes a server over. Returns its name here.
    pub(crate) fn take(
        &mut self,
        name: &str,
        from: &str,
        server: &Server,
        check: Check<'_>,
    ) -> Result<(String, Taking), Unusable> {
        let fingerprint = Some(server.fingerprint());
        if self.servers.get(name) == Some(&fingerprint) {
            return Ok((name.to_owned(), Taking::Known));
        }
        let same = self.servers.iter().find(|(_, known)| **known == fingerprint);
        if let Some((known, _)) = same {
            return Ok((known.clone(), Taking::Known));
        }
        check(&json_line(&file_with(name, server))).map_err(Unusable::Refused)?;
        let taking = if self.servers.contains_key(name) { Taking::Renamed } else { Taking::Added };
        let name = self.free_name(name, from);
        self.put(&name, server);
        Ok((name, taking))
    }

    fn free_name(&self, name: &str, from: &str) -> String {
        let plain = std::iter::once(name.to_owned());
        let marked = std::iter::once(format!("{name}-{from}"));
        let numbered = (2_usize..).map(|number| format!("{name}-{from}-{number}"));
        let mut names = plain.chain(marked).chain(numbered);
        names.find(|name| !self.servers.contains_key(name)).unwrap_or_default()
    }

    fn put(&mut self, name: &str, server: &Server) {
        self.edits.push(Edit::Set(vec![SERVERS.to_owned(), name.to_owned()], server.entry()));
        self.servers.insert(name.to_owned(), Some(server.fingerprint()));
    }

    /// Adds a server.
    pub fn add(&mut self, name: &str, server: &Server) -> Result<(), ConfigurationError> {
        if self.servers.contains_key(name) {
            return Err(ConfigurationError::Exists { path: self.path(), name: name.to_owned() });
        }
        self.put(name, server);
        Ok(())
    }

    /// Removes a server.
    pub fn remove(&mut self, name: &str) -> Result<(), ConfigurationError> {
        let missing = || ConfigurationError::Missing { path: self.path(), name: name.to_owned() };
        let path = self.paths.get(name).cloned().ok_or_else(missing)?;
        self.servers.remove(name);
        self.edits.push(Edit::Remove(path));
        Ok(())
    }

    /// The names of its servers, also of those that it gets.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.servers.keys().map(String::as_str)
    }

    /// The new content, checked; `None` if nothing changes.
    pub fn edited(&self, check: Check<'_>) -> Result<Option<String>, ConfigurationError> {
        if self.edits.is_empty() {
            return Ok(None);
        }
        let edited = Format::Json.edit(self.document.text(), &self.edits);
        let edited =
            edited.map_err(|source| ConfigurationError::Edit { path: self.path(), source })?;
        let invalid = |reason| ConfigurationError::Invalid { path: self.path(), reason };
        check(&edited).map_err(invalid)?;
        Ok(Some(edited))
    }

    fn path(&self) -> String {
        self.document.path().display().to_string()
    }
}

/// A configuration with one server.
fn file_with(name: &str, server: &Server) -> Value {
    Value::object([(SERVERS, Value::object([(name, server.entry())]))])
}

/// The word for a client in names of servers.
pub(crate) fn mark(client: Option<&Client>) -> &'static str {
    client.map_or("imported", |client| client.id)
}
