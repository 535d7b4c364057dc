//! `ostler check`: validates the configuration and describes what would run.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use ostler_gateway::config::{
    self, Asker, Description, Environment, LoadError, NotFound, Problem, Problems, Search,
    Unreadable, describe, token_warnings,
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
pub(crate) enum CheckError {
    #[error("cannot find the current directory")]
    Directory(#[from] io::Error),
    #[error(transparent)]
    NotFound(#[from] NotFound),
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
}

/// Output of `--json`.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Report {
    pub(crate) config: PathBuf,
    pub(crate) servers: Vec<Description>,
    notices: Vec<Problem>,
    /// Problems with tokens of clients.
    warnings: Vec<String>,
    errors: Vec<Problem>,
    /// Number of further errors that are not listed.
    #[serde(skip)]
    more: usize,
}

pub(crate) fn run(arguments: &CheckArguments) -> ExitCode {
    let report = match examine(arguments.config.as_deref()) {
        Ok(report) => report,
        Err(error) => {
            say(chain(&error));
            return exit::FAILED.into();
        }
    };
    let is_invalid = !report.errors.is_empty();
    let written = if arguments.json { out::json(&report) } else { report.show() };
    if is_invalid { exit::FAILED.into() } else { written }
}

/// Reads the configuration as a client here would use it. One that is invalid has errors and no servers.
pub(crate) fn examine(given: Option<&Path>) -> Result<Report, CheckError> {
    let (environment, directory) = (Environment::of_process(), std::env::current_dir()?);
    let (environment, directory) = (&environment, directory.as_path());
    let config = Search { given, asker: Asker::Person, environment, directory }.find()?;
    match config::load(&config) {
        Ok(file) => {
            let entries = file.servers.values();
            let servers = entries.map(|entry| describe(entry, environment, directory)).collect();
            let warnings = token_warnings(&file, environment);
            Ok(Report { config, servers, notices: file.notices, warnings, ..Report::default() })
        }
        Err(LoadError::Invalid(problems)) => {
            let Problems { file, list: errors, more } = problems;
            Ok(Report { config: file.into(), errors, more, ..Report::default() })
        }
        Err(LoadError::Unreadable(error)) => Err(error.into()),
    }
}

impl Report {
    fn show(self) -> ExitCode {
        if !self.errors.is_empty() {
            let file = self.config.display().to_string();
            let mut page = Page::new();
            page.problems(&Problems { file, list: self.errors, more: self.more });
            out::complain(&page);
            return exit::FAILED.into();
        }
        self.complaints().iter().for_each(say);
        out::print(&page(&self.config, &self.servers))
    }

    /// All that is wrong or doubtful, a line for each.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let file = self.config.display().to_string();
        let problems = self.errors.iter().chain(&self.notices);
        let problems = problems.map(|problem| problem.in_file(&file).to_string());
        let of_servers = self.servers.iter().flat_map(|server| {
            server.warnings.iter().map(|warning| format!("{}: {warning}", server.name))
        });
        problems.chain(of_servers).chain(self.warnings.iter().cloned()).collect()
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
