//! `ostler ps`.

use std::fmt::Write;
use std::process::ExitCode;

use clap::Args;
use ostler::{Places, Process, View, snapshot};

use crate::render;

/// What `ostler ps` is told.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ostler ps
  ostler ps --tree
  ostler ps --json | jq '.[].name'

It reads the ledgers of all owners of this user, so that it needs no gateway.
States: starting, running, ending (its owner is dead), unverified (KILL has not ended it yet),
orphaned (owner and guardian are dead: `ostler reap --yes` ends it; without a leaf only what still
carries the instance's mark in its environment can be found).")]
pub(crate) struct PsArguments {
    /// Show every process of each server
    #[arg(long)]
    tree: bool,
    /// Print JSON
    #[arg(long, conflicts_with = "tree")]
    json: bool,
}

pub(crate) fn run(arguments: &PsArguments) -> ExitCode {
    let views = snapshot(&Places::of_user());
    if arguments.json {
        render::json(&views)
    } else if views.is_empty() {
        render::text("no servers\n")
    } else if arguments.tree {
        render::text(&views.iter().map(tree).collect::<String>())
    } else {
        render::text(&table(&views))
    }
}

fn table(views: &[View]) -> String {
    let headers =
        ["NAME", "STATE", "LEVEL", "PID", "PROCS", "RSS", "AGE", "COMMAND", "OWNER", "CLIENT"];
    let rows: Vec<_> = views.iter().map(row).collect();
    render::table(headers, &rows)
}

fn row(view: &View) -> [String; 10] {
    let client = view.owner.client.as_ref();
    [
        view.name.clone(),
        view.state.to_string(),
        view.containment.map_or("-".into(), |level| level.to_string()),
        view.pid.map_or("-".into(), |pid| pid.to_string()),
        view.processes.len().to_string(),
        render::size(view.rss),
        render::age(view.started_at),
        view.program.clone(),
        format!("{} ({})", view.owner.program, view.owner.process.pid),
        client.map_or("-".into(), |client| format!("{} ({})", client.name, client.process.pid)),
    ]
}

fn tree(view: &View) -> String {
    let mut text = format!("{} ({}, {})\n", view.name, view.state, view.instance);
    let guardian = view.guardian.as_ref().map_or(0, |guardian| guardian.pid);
    let known: Vec<i32> = view.processes.iter().map(|process| process.pid).collect();
    let tops = view.processes.iter().filter(|p| !known.contains(&p.parent()));
    for top in tops {
        branch(&mut text, view, top, 1);
    }
    if guardian != 0 {
        // A string takes whatever is written to it.
        let _ = writeln!(text, "  held by guardian {guardian}");
    }
    text
}

fn branch(text: &mut String, view: &View, process: &Process, depth: usize) {
    let (indent, line) = ("  ".repeat(depth), process.command_line());
    let line = if line.is_empty() { &process.name } else { &line };
    let _ = writeln!(text, "{indent}{} {line}", process.pid);
    for child in view.processes.iter().filter(|child| child.parent() == process.pid) {
        branch(text, view, child, depth + 1);
    }
}
