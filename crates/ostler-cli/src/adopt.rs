//! What the commands for clients' files have in common: the machine, the configuration, and how changes are shown.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use chrono::Utc;
use clap::builder::PossibleValuesParser;
use ostler_clients::{
    CLIENTS, Client, Configuration, ConfigurationError, Format, Machine, NoHome, preview,
};
use ostler_gateway::config::{
    self, Asker, Environment, NotFound, Problems, Search, masked_command,
};

use crate::doctor;
use crate::out::say;
use crate::page::Page;

#[derive(Debug, thiserror::Error)]
pub(crate) enum AdoptError {
    #[error("cannot find the current directory")]
    Directory(#[source] io::Error),
    #[error(transparent)]
    NoHome(#[from] NoHome),
    #[error(transparent)]
    NotFound(#[from] NotFound),
    #[error(transparent)]
    Configuration(#[from] ConfigurationError),
}

/// The machine as seen from the current directory.
pub(crate) fn machine() -> Result<Machine, AdoptError> {
    let directory = std::env::current_dir().map_err(AdoptError::Directory)?;
    Ok(Machine::of_process(directory)?)
}

/// Opens the configuration that a command edits: the one that is named, which need not exist, or the one that is found,
/// or a new one at the usual place.
pub(crate) fn open(
    machine: &Machine,
    given: Option<&Path>,
    asker: Asker,
) -> Result<Configuration, AdoptError> {
    let environment = Environment::of_process();
    let search = Search { given, asker, environment: &environment, directory: &machine.project };
    let path = match search.find() {
        Ok(path) => path,
        Err(NotFound::Named { path, source }) if source.kind() == io::ErrorKind::NotFound => path,
        Err(NotFound::Anywhere { .. }) => machine.configuration(),
        Err(error) => return Err(error.into()),
    };
    Ok(Configuration::open(&path)?)
}

/// Judges a configuration. The path is that of its file.
pub(crate) fn check(path: PathBuf) -> impl Fn(&str) -> Result<(), String> {
    move |text| config::parse(text, &path).map(drop).map_err(|problems| reasons(&problems))
}

/// The messages, without lines and columns: those of a text that is on no disk mean nothing to the user.
fn reasons(problems: &Problems) -> String {
    let messages: Vec<&str> =
        problems.list.iter().map(|problem| problem.message.as_str()).collect();
    messages.join("; ")
}

/// Adds what would change in a file.
pub(crate) fn show_changes(
    page: &mut Page,
    path: &Path,
    format: Format,
    before: &str,
    after: &str,
) {
    page.line(format_args!("--- {}", path.display()));
    page.line(format_args!("+++ {}", path.display()));
    for line in preview(format, before, after, &|words| masked_command(words)) {
        page.line(line.replace('\t', "    "));
    }
}

/// Accepts the names of clients.
pub(crate) fn client_names() -> PossibleValuesParser {
    PossibleValuesParser::new(CLIENTS.iter().map(|client| client.id))
}

/// The clients with these names, each once.
pub(crate) fn clients(names: &[String]) -> Vec<&'static Client> {
    let mut seen = BTreeSet::new();
    let clients = names.iter().filter_map(|name| Client::named(name));
    clients.filter(|client| seen.insert(client.id)).collect()
}

/// Prints which of these clients run: they read their files only when they start, and some write them.
pub(crate) fn name_running(clients: &BTreeSet<&'static str>) {
    let running = doctor::running();
    for client in CLIENTS.iter().filter(|client| clients.contains(client.id)) {
        if running.contains(client.host) {
            let title = client.title;
            say(format_args!("{title} is running; restart it, so that it reads the new file"));
        }
    }
}

/// The time, for names of backups.
pub(crate) fn stamp() -> String {
    Utc::now().format("%Y%m%d-%H%M%S").to_string()
}

/// Writes the configuration if it changed. Returns whether it did.
pub(crate) fn save(configuration: &Configuration) -> Result<bool, AdoptError> {
    let path = configuration.document().path().to_owned();
    let Some(text) = configuration.edited(&check(path))? else { return Ok(false) };
    configuration.document().replace(&text).map_err(ConfigurationError::from)?;
    Ok(true)
}
