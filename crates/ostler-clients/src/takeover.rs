//! Taking servers of clients over into ostler.json.

use std::path::PathBuf;

use crate::clients::{Client, Machine};
use crate::configuration::{Check, Configuration, Taking, mark};
use crate::docker;
use crate::entry::{Found, Taken, Unusable};
use crate::inventory::Listed;
use crate::server::{Server, Target};
use crate::source::{SourceError, of_file, open};

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
