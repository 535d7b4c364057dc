//! Taking servers of clients over into ostler.json.

use std::path::{Path, PathBuf};

use crate::clients::{Client, Machine, Scope};
use crate::configuration::{Check, Configuration, Taking, mark};
use crate::docker;
use crate::entry::{Found, Taken, Unusable};
use crate::files::{Document, FileError};
use crate::format::{Format, SyntaxError};
use crate::inventory::{self, Listed};
use crate::server::{Server, Target};

/// Where servers are taken from.
#[derive(Clone, Debug)]
pub enum Source {
    /// A client.
    Client(&'static Client),
    /// A file.
    File(PathBuf),
    /// The servers that Docker's MCP gateway has enabled.
    Docker,
}

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

/// What became of one entry of a client.
#[derive(Clone, Debug)]
pub struct Import {
    /// Its name there.
    pub name: String,
    /// Its file.
    pub file: PathBuf,
    /// What became of it.
    pub outcome: Outcome,
}

/// What became of an entry.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// It is in ostler.json.
    Taken {
        /// Its name there.
        name: String,
        /// Whether it is new there.
        taking: Taking,
        /// The server.
        server: Server,
        /// Keys that concern only the client.
        unused: Vec<String>,
    },
    /// It starts ostler already.
    Own,
    /// It can't be taken over.
    Left(Unusable),
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

/// Takes all servers of a source over.
pub fn import(
    machine: &Machine,
    source: &Source,
    project: bool,
    configuration: &mut Configuration,
    check: Check<'_>,
) -> Result<Vec<Import>, SourceError> {
    let (client, opened) = match source {
        Source::Client(client) => (Some(*client), open(machine, client, project)?),
        Source::File(path) => of_file(machine, path)?,
        Source::Docker => (None, docker::open(machine)?),
    };
    let mut imports = Vec::new();
    for file in opened {
        for listed in file.listed {
            let outcome = taken(&listed, mark(client), configuration, check);
            let (name, file) = (listed.name().to_owned(), file.document.path().to_owned());
            imports.push(Import { name, file, outcome });
        }
    }
    Ok(imports)
}

/// Opens a file that the user named. One of a known client is read as that client reads it.
fn of_file(
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
    for client in crate::CLIENTS {
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

fn taken(
    listed: &Listed,
    from: &str,
    configuration: &mut Configuration,
    check: Check<'_>,
) -> Outcome {
    let (server, unused) = match &listed.found {
        Found::Server(taken) | Found::Wrapped(taken) => {
            (taken.server.clone(), taken.unused.clone())
        }
        Found::Own(_) | Found::BuiltIn => return Outcome::Own,
        Found::Unusable(unusable) => return Outcome::Left(unusable.clone()),
    };
    match configuration.take(listed.name(), from, &server, check) {
        Ok((name, taking)) => Outcome::Taken { name, taking, server, unused },
        Err(unusable) => Outcome::Left(unusable),
    }
}

/// Takes one entry over for `link`: switches and filters of the client stay with the client.
pub(crate) fn take_for_link(
    name: &str,
    taken: &Taken,
    client: &Client,
    configuration: &mut Configuration,
    check: Check<'_>,
) -> Result<(String, Taking), Unusable> {
    let server = taken.server.unfiltered();
    if let Target::Remote { headers, .. } = &server.target
        && headers.is_empty()
    {
        return Err(Unusable::Login);
    }
    configuration.take(name, client.id, &server, check)
}
