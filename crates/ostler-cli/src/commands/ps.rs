//! `ostler ps`.

use std::fmt::Write;
use std::process::ExitCode;

use clap::Args;
use ostler::sweep::books;
use ostler::{Census, Holding, Places, Process, View, snapshot};
use serde::Serialize;

use crate::render;

/// What `ostler ps` is told.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ostler ps
  ostler ps --tree
  ostler ps --json | jq '.[].name'

It reads the ledgers of all owners of this user, so that it needs no gateway.
States: starting, running, ending (its owner is dead), unverified (something has not gone yet, or its
container engine does not say), orphaned (owner and guardian are dead: `ostler reap --yes` ends it;
without a leaf only what still carries the instance's mark in its environment can be found).
Containers are those that the server has caused, also those of dead owners; ? if their engine does not
answer in time.")]
pub(crate) struct PsArguments {
    /// Show every process and container of each server
    #[arg(long)]
    tree: bool,
    /// Print JSON
    #[arg(long, conflicts_with = "tree")]
    json: bool,
}

/// An instance, with what its engine says.
#[derive(Debug, Serialize)]
struct Line {
    #[serde(flatten)]
    view: View,
    #[serde(flatten)]
    holding: Holding,
}

pub(crate) fn run(arguments: &PsArguments) -> ExitCode {
    let places = Places::of_user();
    let views = snapshot(&places);
    let census = Census::take(&books(&places));
    let line = |view: View| Line { holding: census.of(view.instance), view };
    let lines: Vec<Line> = views.into_iter().map(line).collect();
    if arguments.json {
        render::json(&lines)
    } else if lines.is_empty() {
        render::text("no servers\n")
    } else if arguments.tree {
        render::text(&lines.iter().map(tree).collect::<String>())
    } else {
        render::text(&table(&lines))
    }
}

fn table(lines: &[Line]) -> String {
    let headers = [
        "NAME",
        "STATE",
        "LEVEL",
        "PID",
        "PROCS",
        "CONTAINERS",
        "RSS",
        "AGE",
        "COMMAND",
        "OWNER",
        "CLIENT",
    ];
    let rows: Vec<_> = lines.iter().map(row).collect();
    render::table(headers, &rows)
}

fn row(Line { view, holding }: &Line) -> [String; 11] {
    let client = view.owner.client.as_ref();
    [
        view.name.clone(),
        view.state.to_string(),
        view.containment.map_or("-".into(), |level| level.to_string()),
        view.pid.map_or("-".into(), |pid| pid.to_string()),
        view.processes.len().to_string(),
        if holding.unreachable.is_some() {
            "?".into()
        } else {
            holding.containers.len().to_string()
        },
        render::size(view.rss),
        render::age(view.started_at),
        view.program.clone(),
        format!("{} ({})", view.owner.program, view.owner.process.pid),
        client.map_or("-".into(), |client| format!("{} ({})", client.name, client.process.pid)),
    ]
}

fn tree(Line { view, holding }: &Line) -> String {
    let mut text = format!("{} ({}, {})\n", view.name, view.state, view.instance);
    let guardian = view.guardian.as_ref().map_or(0, |guardian| guardian.pid);
    let known: Vec<i32> = view.processes.iter().map(|process| process.pid).collect();
    let tops = view.processes.iter().filter(|p| !known.contains(&p.parent()));
    for top in tops {
        branch(&mut text, view, top, 1);
    }
    for line in render::holding(holding) {
        // A string takes whatever is written to it.
        let _ = writeln!(text, "  {line}");
    }
    if guardian != 0 {
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
