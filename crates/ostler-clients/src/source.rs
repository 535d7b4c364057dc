//! Files that servers are read from.

use std::path::{Path, PathBuf};

use crate::clients::{CLIENTS, Client, Machine, Scope};
use crate::files::{Document, FileError};
use crate::format::{Format, SyntaxError};
use crate::inventory::{self, Listed};

/// Why a file of a client can't be used.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// It can't be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// It is malformed.
    #[error("cannot read {}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: SyntaxError,
    },
    /// There is no such file.
    #[error("{} does not exist", .0.display())]
    Missing(PathBuf),
    /// The name of the file does not tell its syntax.
    #[error("cannot tell the syntax of {}; its name must end in .json, .jsonc, .json5, .toml, .yaml or .yml", .0.display())]
    Syntaxless(PathBuf),
}

/// A file of a client with its entries.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) document: Document,
    pub(crate) format: Format,
    pub(crate) listed: Vec<Listed>,
}

/// Opens the existing files of a client.
pub(crate) fn open(
    machine: &Machine,
    client: &Client,
    project: bool,
) -> Result<Vec<Opened>, SourceError> {
    let files = client.files.iter().filter(|file| project || file.scope == Scope::User);
    let mut opened = Vec::new();
    for file in files {
        let document = Document::read(&machine.path(file))?;
        if !document.exists() {
            continue;
        }
        let listed = inventory::of_client(client, file, &machine.project, document.text());
        let listed = listed.map_err(|source| syntax(&document, source))?;
        opened.push(Opened { document, format: file.format, listed });
    }
    Ok(opened)
}

fn syntax(document: &Document, source: SyntaxError) -> SourceError {
    SourceError::Syntax { path: document.path().to_owned(), source }
}

/// Opens a file that the user named. One of a known client is read as that client reads it.
pub(crate) fn of_file(
    machine: &Machine,
    path: &Path,
) -> Result<(Option<&'static Client>, Vec<Opened>), SourceError> {
    let document = Document::read(path)?;
    if !document.exists() {
        return Err(SourceError::Missing(path.to_owned()));
    }
    let of_client = |client: &&Client| {
        let real =
            |path: PathBuf| std::fs::canonicalize(path).is_ok_and(|it| it == document.path());
        client.files.iter().find(|file| real(machine.path(file)))
    };
    for client in CLIENTS {
        if let Some(file) = of_client(&client) {
            let listed = inventory::of_client(client, file, &machine.project, document.text());
            let listed = listed.map_err(|source| syntax(&document, source))?;
            return Ok((Some(client), vec![Opened { document, format: file.format, listed }]));
        }
    }
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let format = Format::of_name(name).ok_or_else(|| SourceError::Syntaxless(path.to_owned()))?;
    let listed = inventory::of_file(format, document.path(), document.text());
    let listed = listed.map_err(|source| syntax(&document, source))?;
    Ok((None, vec![Opened { document, format, listed }]))
}
