//! Which clients are here, and whether they use ostler.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::clients::{CLIENTS, Client, Machine, Scope};
use crate::files::Document;
use crate::inventory;
use crate::own::Own;

/// A client of this machine.
#[derive(Debug)]
pub struct Survey {
    /// The client.
    pub client: &'static Client,
    /// Its existing files.
    pub files: Vec<SurveyedFile>,
}

/// A file of a client.
#[derive(Debug)]
pub struct SurveyedFile {
    /// Its path.
    pub path: PathBuf,
    /// Whose file it is.
    pub scope: Scope,
    /// Its servers, or why they are not known.
    pub counts: Result<Counts, String>,
}

/// How the servers of a file are started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Entries that connect to the gateway.
    pub linked: usize,
    /// Entries inside `ostler run`.
    pub wrapped: usize,
    /// Entries without ostler that start a program or reach a remote server.
    pub direct: usize,
}

/// Whether a client uses ostler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It has no server.
    Empty,
    /// No entry uses ostler.
    Neither,
    /// At least one entry connects to the gateway.
    Linked,
    /// Entries are wrapped, and none connects.
    Wrapped,
    /// No file can be read.
    Unknown,
}

impl Survey {
    /// All servers of its files.
    pub fn counts(&self) -> Counts {
        let counts = self.files.iter().filter_map(|file| file.counts.as_ref().ok());
        counts.fold(Counts::default(), |sum, one| Counts {
            linked: sum.linked + one.linked,
            wrapped: sum.wrapped + one.wrapped,
            direct: sum.direct + one.direct,
        })
    }

    /// Whether it uses ostler.
    pub fn state(&self) -> State {
        let Counts { linked, wrapped, direct } = self.counts();
        let is_unknown = self.files.iter().any(|file| file.counts.is_err());
        match (linked, wrapped, direct) {
            (0, 0, 0) if is_unknown => State::Unknown,
            (0, 0, 0) => State::Empty,
            (0, 0, _) => State::Neither,
            (0, ..) => State::Wrapped,
            _ => State::Linked,
        }
    }
}

/// All clients that are installed here, or that the project has files of.
pub fn survey(machine: &Machine) -> Vec<Survey> {
    let surveys = CLIENTS.iter().map(|client| (client, of_client(machine, client)));
    let here = surveys.filter(|(client, files)| !files.is_empty() || machine.has(client));
    here.map(|(client, files)| Survey { client, files }).collect()
}

fn of_client(machine: &Machine, client: &Client) -> Vec<SurveyedFile> {
    let file = |file: &crate::ClientFile| {
        let path = machine.path(file);
        let counts = match Document::read(&path) {
            Ok(document) if !document.exists() => return None,
            Ok(document) => inventory::of_client(client, file, &machine.project, document.text())
                .map(|listed| count(&listed))
                .map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        Some(SurveyedFile { path, scope: file.scope, counts })
    };
    // In the home directory, a file of the project is the user's own.
    let mut seen = BTreeSet::new();
    client.files.iter().filter(|file| seen.insert(machine.path(file))).filter_map(file).collect()
}

fn count(listed: &[crate::Listed]) -> Counts {
    let mut counts = Counts::default();
    for listed in listed {
        match listed.own() {
            Some(Own::Wrap { .. }) => counts.wrapped += 1,
            Some(_) => counts.linked += 1,
            None => counts.direct += 1,
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::Os;

    #[test]
    fn a_file_that_is_the_users_and_the_projects_counts_once() {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path().to_owned();
        std::fs::create_dir(home.join(".cursor")).unwrap();
        std::fs::write(home.join(".cursor/mcp.json"), r#"{"mcpServers":{"a":{"command":"a"}}}"#)
            .unwrap();
        let (project, variables) = (home.clone(), std::collections::BTreeMap::new());
        let machine = Machine { home, project, os: Os::Linux, variables };
        let surveys = survey(&machine);
        let cursor = surveys.iter().find(|survey| survey.client.id == "cursor").unwrap();
        assert_eq!(cursor.counts().direct, 1);
    }
}
