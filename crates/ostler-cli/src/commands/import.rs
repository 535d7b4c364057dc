//! `ostler import`: takes servers of clients over into ostler.json.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use ostler_clients::{
    Client, Configuration, Import, Machine, Outcome, Source, SourceError, Taking, import, survey,
};
use ostler_gateway::config::Asker;
use serde::Serialize;

use crate::adopt::{self, AdoptError};
use crate::commands::add::{Suggestion, suggestions};
use crate::out::{chain, say};
use crate::page::Page;
use crate::{exit, out};

/// Word for the servers of Docker's MCP gateway.
const DOCKER: &str = "docker";

#[derive(Debug, Args)]
#[command(after_help = "\
Without an argument, servers of all installed clients are taken over. The clients' files are only read: `ostler link` changes them. The same server of two clients becomes one; another server with the same name gets the client's name behind its own. Variables stay variables, and no value is printed. Entries that start ostler are left out.

`docker` stands for the servers that Docker's MCP gateway has enabled. Docker keeps their secrets, so each becomes a variable.

The configuration is the first of: --config, OSTLER_CONFIG, and ostler/ostler.json in the XDG config home (~/.config), which is created, readable only by you.

Exit status: 3 if there is no such client or file, or no server; 4 if a server was left, with the reason.

Examples:
  ostler import --dry-run
  ostler import cursor codex
  ostler import ~/old/claude_desktop_config.json")]
pub(crate) struct ImportArguments {
    /// Names of clients, or files [default: all clients]
    #[arg(value_name = "CLIENT|FILE")]
    sources: Vec<String>,
    /// Read files of the current directory as well
    #[arg(long)]
    project: bool,
    #[arg(help = "Edit this configuration [env: OSTLER_CONFIG]")]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Show what would be taken over, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Output of `--json`.
#[derive(Debug, Serialize)]
struct Report {
    config: PathBuf,
    /// Whether ostler.json was changed.
    written: bool,
    servers: Vec<Row>,
}

/// An entry of a client.
#[derive(Debug, Serialize)]
struct Row {
    name: String,
    file: PathBuf,
    result: &'static str,
    /// Its name in ostler.json.
    server: Option<String>,
    /// Why it was left.
    reason: Option<String>,
    /// Keys that concern only the client.
    ignored: Vec<String>,
    suggestions: Vec<Suggestion>,
}

pub(crate) fn run(arguments: &ImportArguments) -> ExitCode {
    match take(arguments) {
        Ok((report, failure)) => show(&report, arguments, failure),
        Err(error) => {
            say(chain(&error));
            exit::FAILED.into()
        }
    }
}

/// Takes servers over. Returns also the exit code if a source could not be read, which was reported.
fn take(arguments: &ImportArguments) -> Result<(Report, Option<u8>), AdoptError> {
    let machine = adopt::machine()?;
    let mut configuration = adopt::open(&machine, arguments.config.as_deref(), Asker::Client)?;
    let check = adopt::check(configuration.document().path().to_owned());
    let (mut servers, mut failure) = (Vec::new(), None);
    for source in sources(arguments, &machine) {
        match import(&machine, &source, arguments.project, &mut configuration, &check) {
            Ok(imports) => servers.extend(imports.into_iter().map(Row::of)),
            Err(error) => {
                complain(&source, &error);
                let is_missing = matches!(error, SourceError::Missing(_));
                failure = Some(if is_missing { exit::NOT_FOUND } else { exit::FAILED });
            }
        }
    }
    let written = !arguments.dry_run && adopt::save(&configuration)?;
    Ok((Report { config: path(&configuration), written, servers }, failure))
}

fn path(configuration: &Configuration) -> PathBuf {
    configuration.document().path().to_owned()
}

fn complain(source: &Source, error: &SourceError) {
    match source {
        Source::File(path) if matches!(error, SourceError::Missing(_)) => {
            say(format_args!(
                "{} is neither a file nor a client; `ostler clients` lists these",
                path.display()
            ));
        }
        _ => say(chain(error)),
    }
}

fn sources(arguments: &ImportArguments, machine: &Machine) -> Vec<Source> {
    let named = |word: &String| match Client::named(word) {
        Some(client) => Source::Client(client),
        None if word == DOCKER => Source::Docker,
        None => Source::File(machine.project.join(word)),
    };
    if !arguments.sources.is_empty() {
        return arguments.sources.iter().map(named).collect();
    }
    let clients = survey(machine).into_iter().map(|survey| Source::Client(survey.client));
    let has_docker = Path::new(&machine.home).join(".docker/mcp/registry.yaml").is_file();
    clients.chain(has_docker.then_some(Source::Docker)).collect()
}

impl Row {
    fn of(import: Import) -> Self {
        let Import { name, file, outcome } = import;
        let plain = Self {
            name,
            file,
            result: "own",
            server: None,
            reason: None,
            ignored: Vec::new(),
            suggestions: Vec::new(),
        };
        match outcome {
            Outcome::Own => plain,
            Outcome::Left(reason) => {
                Self { result: "left", reason: Some(reason.to_string()), ..plain }
            }
            Outcome::Taken { name, taking, server, unused } => {
                let (result, suggestions) = match taking {
                    Taking::Added => ("added", suggestions(&server)),
                    Taking::Renamed => ("renamed", suggestions(&server)),
                    Taking::Known => ("known", Vec::new()),
                };
                Self { result, server: Some(name), ignored: unused, suggestions, ..plain }
            }
        }
    }

    /// The result in words.
    fn words(&self) -> String {
        let server = self.server.as_deref().unwrap_or_default();
        match self.result {
            "added" => "added".to_owned(),
            "renamed" => format!("added as {server}: another server is called {}", self.name),
            "known" => format!("same as {server}"),
            "left" => format!("left: {}", self.reason.as_deref().unwrap_or_default()),
            _ => "starts ostler".to_owned(),
        }
    }
}

fn show(report: &Report, arguments: &ImportArguments, failure: Option<u8>) -> ExitCode {
    let written = if arguments.json {
        out::json(report)
    } else if failure.is_none() || !report.servers.is_empty() {
        out::print(&page(report, arguments.dry_run))
    } else {
        ExitCode::SUCCESS
    };
    let is_left = report.servers.iter().any(|row| row.result == "left");
    match failure {
        Some(code) => code.into(),
        None if report.servers.is_empty() => exit::NOT_FOUND.into(),
        None if is_left => exit::LEFT_OVER.into(),
        None => written,
    }
}

fn page(report: &Report, dry_run: bool) -> Page {
    let config = report.config.display();
    if report.servers.is_empty() {
        return Page::of("no servers found");
    }
    let mut page = Page::new();
    let row = |row: &Row| [row.name.clone(), row.words(), row.file.display().to_string()];
    page.table(["SERVER", "RESULT", "FROM"], &report.servers.iter().map(row).collect::<Vec<_>>());
    for row in &report.servers {
        let server = row.server.as_deref().unwrap_or(&row.name);
        for Suggestion { setting, reason } in &row.suggestions {
            page.line(format_args!("{server}: consider {setting}: {reason}"));
        }
        if row.result != "known" && !row.ignored.is_empty() {
            let keys = row.ignored.join(", ");
            page.line(format_args!("{server}: not taken over, only its client uses it: {keys}"));
        }
    }
    let count =
        report.servers.iter().filter(|row| ["added", "renamed"].contains(&row.result)).count();
    let plural = if count == 1 { "" } else { "s" };
    match (count, dry_run) {
        (0, _) => page.line(format_args!("{config} has them all already")),
        (_, true) => page.line(format_args!("{count} server{plural} would be added to {config}")),
        (_, false) => page.line(format_args!("{count} server{plural} added to {config}")),
    }
    page
}
