//! `ostler check`: validates the configuration and describes what would run.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use ostler_gateway::config::{
    self, Asker, Description, Environment, File, LoadError, NotFound, Problem, Search, describe,
    token_warnings,
};
use serde::Serialize;

use crate::out::{chain, say};
use crate::page::Page;
use crate::{exit, out};

#[derive(Debug, Args)]
#[command(after_help = "\
Prints all errors with line and column, or what would run for a client with this directory and environment. Warns of what cannot work here: a program that is not on the PATH, a missing directory, a token that admits no client. Starts no server and contacts none. Values of variables and possible secrets are masked; of a url only the host is shown.

The configuration is the first of: --config, OSTLER_CONFIG, ./ostler.json, and ostler/ostler.json in the XDG config home (~/.config).

Examples:
  ostler check
  ostler check --config ~/.config/ostler/ostler.json
  ostler check --json | jq '.servers[] | select(.disabled)'")]
pub(crate) struct CheckArguments {
    /// Check this file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, thiserror::Error)]
enum CheckError {
    #[error("cannot find the current directory")]
    Directory(#[from] io::Error),
    #[error(transparent)]
    NotFound(#[from] NotFound),
    #[error(transparent)]
    Load(#[from] LoadError),
}

/// Output of `--json`.
#[derive(Debug, Default, Serialize)]
struct Report {
    config: PathBuf,
    servers: Vec<Description>,
    notices: Vec<Problem>,
    /// Problems with tokens of clients.
    warnings: Vec<String>,
    errors: Vec<Problem>,
}

/// The client to describe for: this directory and environment.
struct Asking {
    environment: Environment,
    directory: PathBuf,
}

pub(crate) fn run(arguments: &CheckArguments) -> ExitCode {
    match check(arguments) {
        Ok(code) => code,
        Err(CheckError::Load(LoadError::Invalid(problems))) if arguments.json => {
            let config = PathBuf::from(&problems.file);
            let errors = problems.list;
            let _ = out::json(&Report { config, errors, ..Report::default() });
            exit::FAILED.into()
        }
        Err(CheckError::Load(LoadError::Invalid(problems))) => {
            let mut page = Page::new();
            page.problems(&problems);
            out::complain(&page);
            exit::FAILED.into()
        }
        Err(error) => {
            say(chain(&error));
            exit::FAILED.into()
        }
    }
}

fn check(arguments: &CheckArguments) -> Result<ExitCode, CheckError> {
    let asking =
        Asking { environment: Environment::of_process(), directory: std::env::current_dir()? };
    let search = Search {
        given: arguments.config.as_deref(),
        asker: Asker::Person,
        environment: &asking.environment,
        directory: &asking.directory,
    };
    let path = search.find()?;
    let file = config::load(&path)?;
    let servers = asking.describe(&file);
    let warnings = token_warnings(&file, &asking.environment);
    if arguments.json {
        let (notices, errors) = (file.notices, Vec::new());
        return Ok(out::json(&Report { config: path, servers, notices, warnings, errors }));
    }
    for notice in &file.notices {
        say(notice.in_file(&path.display().to_string()));
    }
    for Description { name, warnings, .. } in &servers {
        for warning in warnings {
            say(format_args!("{name}: {warning}"));
        }
    }
    warnings.iter().for_each(say);
    Ok(out::print(&page(&path, &servers)))
}

impl Asking {
    fn describe(&self, file: &File) -> Vec<Description> {
        let entries = file.servers.values();
        entries.map(|entry| describe(entry, &self.environment, &self.directory)).collect()
    }
}

fn page(path: &Path, servers: &[Description]) -> Page {
    let disabled = servers.iter().filter(|server| server.disabled.is_some()).count();
    let plural = if servers.len() == 1 { "" } else { "s" };
    let disabled = if disabled > 0 { format!(", {disabled} disabled") } else { String::new() };
    let count = servers.len();
    let mut page = Page::of(format_args!("{}: {count} server{plural}{disabled}", path.display()));
    if !servers.is_empty() {
        page.table(["NAME", "SHARE", "RUNS OR REACHES"], &rows(servers));
    }
    page
}

fn rows(servers: &[Description]) -> Vec<[String; 3]> {
    let row = |server: &Description| {
        let runs = match &server.disabled {
            Some(reason) => format!("disabled: {reason}"),
            None => server.url.clone().unwrap_or_else(|| server.command.join(" ")),
        };
        [server.name.clone(), server.share.to_string(), runs]
    };
    servers.iter().map(row).collect()
}
