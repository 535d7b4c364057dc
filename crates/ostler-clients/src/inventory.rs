//! The servers in a file of a client.

use std::path::Path;

use crate::clients::{Client, ClientFile, Scope, Section, Variables};
use crate::entry::{self, Context, Found};
use crate::format::{Format, SyntaxError};
use crate::own::Own;
use crate::value::Value;

/// An entry of a file.
#[derive(Clone, Debug)]
pub struct Listed {
    /// Keys from the top of the file to the entry.
    pub(crate) path: Vec<String>,
    /// The entry as it is written.
    pub(crate) entry: Value,
    /// What it is.
    pub found: Found,
}

impl Listed {
    /// Its name in the file.
    pub fn name(&self) -> &str {
        self.path.last().map_or("", String::as_str)
    }

    /// How it starts ostler, if it does. It may be [`Found::Unusable`] nevertheless, for the sake of the wrapped command.
    pub(crate) fn own(&self) -> Option<Own> {
        match &self.found {
            Found::Own(own) => Some(own.clone()),
            _ => Own::of_command(&entry::command_words(&self.entry)?),
        }
    }
}

/// Places of servers in files of unknown clients.
static ANYWHERE: &[Section] = &[
    Section::Keys(&["mcpServers"]),
    Section::Keys(&["servers"]),
    Section::Keys(&["context_servers"]),
    Section::Keys(&["mcp_servers"]),
    Section::Keys(&["mcp.servers"]),
    Section::Keys(&["amp.mcpServers"]),
    Section::Keys(&["mcp", "servers"]),
    Section::Keys(&["mcp"]),
    Section::Keys(&["extensions"]),
    Section::Each(&["projects"], &["mcpServers"]),
];

/// The entries of a client's file.
pub(crate) fn of_client(
    client: &Client,
    file: &ClientFile,
    project: &Path,
    text: &str,
) -> Result<Vec<Listed>, SyntaxError> {
    let directory = (file.scope == Scope::Project).then_some(project);
    let context = Context { variables: client.variables, directory };
    let value = file.format.read(text)?;
    for section in file.sections {
        if let Some(keys) = section.opaque(&value) {
            return Err(file.format.opaque(text, &keys));
        }
    }
    Ok(list(&value, file.sections, context))
}

/// The entries of a file that belongs to no known client: in any of the usual places, or at its top.
pub(crate) fn of_file(format: Format, path: &Path, text: &str) -> Result<Vec<Listed>, SyntaxError> {
    let context = Context { variables: Variables::Braces, directory: path.parent() };
    let value = format.read(text)?;
    let listed = list(&value, ANYWHERE, context);
    Ok(if listed.is_empty() { list(&value, &[Section::Keys(&[])], context) } else { listed })
}

/// The entries of ostler.json.
pub(crate) fn of_ostler(value: &Value, path: &Path) -> Vec<Listed> {
    list(value, ANYWHERE, Context { variables: Variables::Ostler, directory: path.parent() })
}

fn list(value: &Value, sections: &[Section], context: Context<'_>) -> Vec<Listed> {
    let paths = sections.iter().flat_map(|section| section.paths(value));
    paths.flat_map(|path| entries(value, &path, context)).collect()
}

fn entries(value: &Value, path: &[String], context: Context<'_>) -> Vec<Listed> {
    let members = value.at(path).map_or(&[][..], Value::members);
    let objects = members.iter().filter(|(_, value)| matches!(value, Value::Object(_)));
    let listed = objects.map(|(key, entry)| Listed {
        path: path.iter().chain([key]).cloned().collect(),
        entry: entry.clone(),
        found: entry::read(entry, context),
    });
    listed.filter(|listed| !matches!(listed.found, Found::BuiltIn)).collect()
}
