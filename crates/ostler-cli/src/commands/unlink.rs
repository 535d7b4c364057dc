//! `ostler unlink`: takes ostler out of a client's configuration.

use std::collections::BTreeSet;
use std::process::ExitCode;

use clap::Args;
use ostler_clients::{Backups, Machine, Undo, plan_undo};

use crate::adopt;
use crate::commands::link::{Changed, Failure, Report, agreed, show_steps};
use crate::out::{chain, say};
use crate::page::Page;
use crate::{exit, out};

#[derive(Debug, Args)]
#[command(after_help = "\
Brings back what the client's files were before `ostler link`: byte for byte if no other program wrote to them since, and otherwise entry by entry, with everything else as it is now. The servers stay in ostler.json: `ostler remove` removes them.

Shows all changes as a diff, with secrets masked, and asks. Each file is kept as a backup first, as by `ostler link`.

Exit status: 2 if nothing was written because you did not agree, 3 if no entry uses ostler, 4 if an entry could not be brought back.

Examples:
  ostler unlink cursor
  ostler unlink claude-code codex --yes")]
pub(crate) struct UnlinkArguments {
    /// Names of clients, as `ostler clients` lists them
    #[arg(required = true, value_name = "CLIENT", value_parser = adopt::client_names(), hide_possible_values = true)]
    clients: Vec<String>,
    /// Write without asking
    #[arg(long)]
    yes: bool,
    /// Edit files of the current directory as well
    #[arg(long)]
    project: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &UnlinkArguments) -> ExitCode {
    match plans(arguments) {
        Ok((machine, undos)) => finish(&machine, &undos, arguments),
        Err(error) => {
            say(chain(&error));
            exit::FAILED.into()
        }
    }
}

/// What would be written into files that use ostler.
fn plans(arguments: &UnlinkArguments) -> Result<(Machine, Vec<Undo>), Failure> {
    let machine = adopt::machine()?;
    let mut undos = Vec::new();
    for client in adopt::clients(&arguments.clients) {
        undos.extend(plan_undo(&machine, client, arguments.project)?);
    }
    undos.retain(|undo| !undo.steps.is_empty());
    Ok((machine, undos))
}

fn finish(machine: &Machine, undos: &[Undo], arguments: &UnlinkArguments) -> ExitCode {
    if undos.is_empty() {
        say(format_args!(
            "nothing to unlink: no entry of {} uses ostler",
            arguments.clients.join(", ")
        ));
        return exit::NOT_FOUND.into();
    }
    if !arguments.json {
        out::print(&page(undos));
    }
    let files =
        || undos.iter().map(|undo| (undo.client, undo.document.path(), undo.steps.as_slice()));
    if undos.iter().any(Undo::changes) && !agreed(arguments.yes) {
        return Report::new(None, false, files(), &[]).refused(arguments.json);
    }
    let (changed, has_failed) = write(machine, undos);
    let code = Report::new(None, !has_failed, files(), &changed).finish(arguments.json, has_failed);
    let unlinked = undos.iter().filter(|undo| undo.changes()).map(|undo| undo.client.id);
    adopt::name_running(&unlinked.collect::<BTreeSet<_>>());
    code
}

/// Writes everything. Returns the files, and whether any of them failed, which was reported.
fn write(machine: &Machine, undos: &[Undo]) -> (Vec<Changed>, bool) {
    let (state, stamp) = (machine.state(), adopt::stamp());
    let (mut changed, mut has_failed) = (Vec::new(), false);
    for undo in undos.iter().filter(|undo| undo.changes()) {
        match undo.apply(Backups { state: &state, stamp: &stamp }) {
            Ok(backup) => changed.push(Changed::new(undo.document.path(), backup)),
            Err(error) => {
                say(chain(&error));
                has_failed = true;
            }
        }
    }
    (changed, has_failed)
}

fn page(undos: &[Undo]) -> Page {
    let mut page = Page::new();
    for undo in undos {
        let path = undo.document.path();
        show_steps(&mut page, undo.client, path, &undo.steps);
        page.line(match (&undo.after, undo.is_exact) {
            (None, _) => "  the file is removed: `ostler link` created it",
            (_, true) => "  the file becomes what it was, byte for byte",
            (_, false) => "  the file was written to since, so only ostler's edits are undone",
        });
        let after = undo.after.as_deref().unwrap_or_default();
        adopt::show_changes(&mut page, path, undo.format, undo.document.text(), after);
    }
    page
}
