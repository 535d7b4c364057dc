//! `ostler clients`: which MCP clients are here, and whether they use ostler.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use ostler_clients::{Counts, Scope, State, Survey, SurveyedFile, survey};
use serde::Serialize;

use crate::out::{chain, say};
use crate::page::Page;
use crate::{adopt, doctor, exit, out};

#[derive(Debug, Args)]
#[command(after_help = "\
A client is listed if it has a file or a program here, or a file in the current directory. `linked` means that an entry connects to ostler's gateway, `wrapped` that entries start their servers through `ostler run`, `neither` that none uses ostler. Direct entries are those without ostler.

Examples:
  ostler clients
  ostler clients --json | jq -r '.[] | select(.state == \"neither\") | .client'")]
pub(crate) struct ClientsArguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// An element of the JSON output.
#[derive(Debug, Serialize)]
struct Shown {
    /// Name for `ostler link`.
    client: &'static str,
    title: &'static str,
    state: &'static str,
    /// Whether a process of it was found.
    running: bool,
    files: Vec<ShownFile>,
}

#[derive(Debug, Serialize)]
struct ShownFile {
    path: PathBuf,
    scope: &'static str,
    linked: usize,
    wrapped: usize,
    direct: usize,
    /// Why its servers are not known.
    error: Option<String>,
}

pub(crate) fn run(arguments: &ClientsArguments) -> ExitCode {
    let machine = match adopt::machine() {
        Ok(machine) => machine,
        Err(error) => {
            say(chain(&error));
            return exit::FAILED.into();
        }
    };
    let surveys = survey(&machine);
    if arguments.json {
        let running = doctor::running();
        let shown = |survey: &Survey| shown(survey, running.contains(survey.client.host));
        return out::json(&surveys.iter().map(shown).collect::<Vec<_>>());
    }
    if surveys.is_empty() {
        return out::print_line("no MCP client is installed here");
    }
    out::print(&page(&surveys))
}

fn shown(survey: &Survey, running: bool) -> Shown {
    let file = |file: &SurveyedFile| {
        let Counts { linked, wrapped, direct } = file.counts.clone().unwrap_or_default();
        ShownFile {
            path: file.path.clone(),
            scope: scope(file.scope),
            linked,
            wrapped,
            direct,
            error: file.counts.clone().err(),
        }
    };
    Shown {
        client: survey.client.id,
        title: survey.client.title,
        state: state(survey.state()),
        running,
        files: survey.files.iter().map(file).collect(),
    }
}

fn scope(scope: Scope) -> &'static str {
    match scope {
        Scope::User => "user",
        Scope::Project => "project",
    }
}

fn state(state: State) -> &'static str {
    match state {
        State::Empty => "no servers",
        State::Neither => "neither",
        State::Linked => "linked",
        State::Wrapped => "wrapped",
        State::Unknown => "unknown",
    }
}

fn page(surveys: &[Survey]) -> Page {
    let mut page = Page::new();
    let mut rows = Vec::new();
    for survey in surveys {
        let (name, state) = (survey.client.id.to_owned(), state(survey.state()).to_owned());
        if survey.files.is_empty() {
            rows.push([name.clone(), state.clone(), "-".to_owned(), "-".to_owned()]);
        }
        rows.extend(survey.files.iter().map(|file| {
            let path = file.path.display().to_string();
            [name.clone(), state.clone(), servers(file), path]
        }));
    }
    page.table(["CLIENT", "STATE", "SERVERS", "FILE"], &rows);
    page
}

/// `linked 2, direct 1`.
fn servers(file: &SurveyedFile) -> String {
    let counts = match &file.counts {
        Ok(counts) => counts,
        Err(error) => return error.clone(),
    };
    let Counts { linked, wrapped, direct } = *counts;
    let parts = [(linked, "linked"), (wrapped, "wrapped"), (direct, "direct")];
    let parts = parts.into_iter().filter(|(count, _)| *count > 0);
    let parts: Vec<String> = parts.map(|(count, what)| format!("{what} {count}")).collect();
    if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
}
