//! `ostler link`: puts ostler into a client's configuration.
//!
//! All files are planned first and shown as a diff. Nothing is written before the user agrees, or without `--yes`. ostler.json
//! is written before the clients' files, so that no client ever names a server that is not there.

mod report;

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use ostler_clients::{
    Advice, Backups, Configuration, Format, LinkError, Machine, Mode, NotLasting, Plan, Request,
    lasting, plan,
};
use ostler_gateway::config::Asker;

use crate::adopt::{self, AdoptError};
use crate::out::{chain, say};
use crate::page::Page;
use crate::{exit, out};

pub(crate) use report::{Changed, Report, agreed, show_steps};

#[derive(Debug, Args)]
#[command(after_help = "\
Takes the client's servers over into ostler.json, and has each entry connect to its server under its own key, so that names of tools and permissions stay as they are. --one uses one entry for all servers: their tools are called server__tool. --wrap only puts `ostler run --` in front of each command: no gateway, no configuration.

Shows all changes as a diff, with secrets masked, and asks. Comments, order and all other settings stay. Each file is kept as a backup, readable only by you, in ostler/backups of the XDG state directory; `ostler unlink` brings it back. A file that changed since the preview is left alone. Remote servers without headers stay, because the client may be logged in there.

Entries name this ostler and its configuration by absolute paths. The configuration is the first of: --config, OSTLER_CONFIG, and ostler/ostler.json in the XDG config home (~/.config), which is created, readable only by you.

Exit status: 2 if nothing was written because you did not agree, 3 if the client has no servers, 4 if an entry that starts a program was left, with the reason.

Examples:
  ostler link claude-code cursor
  ostler link codex --wrap --yes
  ostler link vscode --project")]
pub(crate) struct LinkArguments {
    /// Names of clients, as `ostler clients` lists them
    #[arg(required = true, value_name = "CLIENT", value_parser = adopt::client_names(), hide_possible_values = true)]
    clients: Vec<String>,
    /// Write without asking
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    how: How,
    /// Edit files of the current directory as well
    #[arg(long)]
    project: bool,
    #[arg(help = "Use this configuration [env: OSTLER_CONFIG]")]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct How {
    /// Use one entry for all servers
    #[arg(long, conflicts_with = "wrap")]
    one: bool,
    /// Put `ostler run --` in front of each command instead
    #[arg(long)]
    wrap: bool,
}

impl How {
    fn mode(&self) -> Mode {
        match (self.one, self.wrap) {
            (true, _) => Mode::One,
            (_, true) => Mode::Wrap,
            _ => Mode::Each,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Adopt(#[from] AdoptError),
    #[error("cannot find the program file of this ostler")]
    Program(#[source] io::Error),
    #[error(transparent)]
    NotLasting(#[from] NotLasting),
    #[error(transparent)]
    Link(#[from] LinkError),
}

pub(crate) fn run(arguments: &LinkArguments) -> ExitCode {
    match prepare(arguments) {
        Ok(prepared) => prepared.finish(arguments),
        Err(error) => {
            say(chain(&error));
            exit::FAILED.into()
        }
    }
}

/// Everything that would be written.
struct Prepared {
    machine: Machine,
    configuration: Configuration,
    /// New content of ostler.json, if it changes.
    edited: Option<String>,
    plans: Vec<Plan>,
}

fn prepare(arguments: &LinkArguments) -> Result<Prepared, Failure> {
    let machine = adopt::machine()?;
    let running = std::env::current_exe().map_err(Failure::Program)?;
    let program = lasting(&machine, &running)?;
    let mut configuration = adopt::open(&machine, arguments.config.as_deref(), Asker::Client)?;
    let check = adopt::check(configuration.document().path().to_owned());
    let mode = arguments.how.mode();
    let mut plans = Vec::new();
    for client in adopt::clients(&arguments.clients) {
        let request = Request { client, mode, project: arguments.project, program: &program };
        plans.extend(plan(&machine, request, &mut configuration, &check)?);
    }
    let edited = configuration.edited(&check).map_err(AdoptError::from)?;
    Ok(Prepared { machine, configuration, edited, plans })
}

impl Prepared {
    fn finish(self, arguments: &LinkArguments) -> ExitCode {
        if self.plans.iter().all(|plan| plan.steps.is_empty()) {
            say(format_args!("nothing to link: {} no servers", absent(&arguments.clients)));
            return exit::NOT_FOUND.into();
        }
        let would_write = self.plans.iter().any(Plan::changes) || self.edited.is_some();
        if !arguments.json {
            out::print(&self.page());
        }
        if would_write && !agreed(arguments.yes) {
            return self.report(&[], false).refused(arguments.json);
        }
        let (changed, has_failed) = self.write();
        let code = self.report(&changed, !has_failed).finish(arguments.json, has_failed);
        let linked = self.plans.iter().filter(|plan| plan.changes()).map(|plan| plan.client.id);
        adopt::name_running(&linked.collect::<BTreeSet<_>>());
        code
    }

    /// Writes everything. Returns the files, and whether any of them failed, which was reported.
    fn write(&self) -> (Vec<Changed>, bool) {
        let mut changed = Vec::new();
        if let Some(text) = &self.edited
            && let Err(error) = self.configuration.document().replace(text)
        {
            say(chain(&error));
            return (changed, true);
        }
        let (state, stamp) = (self.machine.state(), adopt::stamp());
        let mut has_failed = false;
        for plan in self.plans.iter().filter(|plan| plan.changes()) {
            match plan.apply(Backups { state: &state, stamp: &stamp }) {
                Ok(backup) => changed.push(Changed::new(plan.document.path(), backup)),
                Err(error) => {
                    say(chain(&error));
                    has_failed = true;
                }
            }
        }
        (changed, has_failed)
    }

    fn page(&self) -> Page {
        let mut page = Page::new();
        for plan in &self.plans {
            show_steps(&mut page, plan.client, plan.document.path(), &plan.steps);
            for (server, Advice { setting, reason }) in &plan.advice {
                page.line(format_args!("  consider {setting} for {server}: {reason}"));
            }
        }
        if let Some(edited) = &self.edited {
            let document = self.configuration.document();
            adopt::show_changes(&mut page, document.path(), Format::Json, document.text(), edited);
        }
        for plan in self.plans.iter().filter(|plan| plan.changes()) {
            let (path, before) = (plan.document.path(), plan.document.text());
            adopt::show_changes(&mut page, path, plan.format, before, &plan.after);
        }
        page
    }

    fn report(&self, changed: &[Changed], written: bool) -> Report {
        let is_written = written && self.edited.is_some();
        let config = is_written.then(|| self.configuration.document().path().to_owned());
        let files = self
            .plans
            .iter()
            .map(|plan| (plan.client, plan.document.path(), plan.steps.as_slice()));
        Report::new(config, written, files, changed)
    }
}

fn absent(clients: &[String]) -> String {
    let verb = if clients.len() == 1 { "has" } else { "have" };
    format!("{} {verb}", clients.join(", "))
}
