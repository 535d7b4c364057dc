//! `ostler ps`.

use std::fmt::Write;
use std::process::ExitCode;

use clap::Args;
use ostler::sweep::books;
use ostler::{Census, Holding, InstanceId, Places, Process, View, snapshot};
use ostler_gateway::admin::{InstanceLine, Overview, ServerLine};
use ostler_gateway::front::Place;
use serde::Serialize;

use crate::gateways::Which;
use crate::render;

/// What `ostler ps` is told.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ostler ps
  ostler ps --tree
  ostler ps --json | jq '.[].name'

It reads the ledgers of all owners of this user, so that it needs no gateway; what gateways know of
their servers is added, and the servers that they reach elsewhere, which have no processes here.
States: starting, running, ending (its owner is dead), unverified (something has not gone yet, or
its container engine does not say), orphaned (owner and guardian are dead: `ostler reap --yes` ends
it; without a leaf only what still carries the instance's mark in its environment can be found).
Containers are those that the server has caused, also those of dead owners; ? if their engine does
not answer in time. Calls are those that are with a server now.")]
pub(crate) struct PsArguments {
    /// Show every process and container of each server
    #[arg(long)]
    tree: bool,
    /// Print JSON
    #[arg(long, conflicts_with = "tree")]
    json: bool,
    #[command(flatten)]
    which: Which,
}

/// An instance, as ledger, process table, engine and gateway tell it.
#[derive(Debug, Serialize)]
struct Row {
    #[serde(flatten)]
    view: View,
    #[serde(flatten)]
    holding: Holding,
    /// What its gateway knows; nothing for a server that has none.
    gateway: Option<InstanceLine>,
}

/// An instance that somebody else runs: it has no process here and is in no ledger.
#[derive(Debug, Serialize)]
struct Elsewhere {
    instance: Option<InstanceId>,
    name: String,
    state: String,
    /// The gateway's process.
    #[serde(skip)]
    owner: u32,
    gateway: InstanceLine,
}

/// All of them, for programs.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Either {
    Here(Box<Row>),
    Elsewhere(Box<Elsewhere>),
}

pub(crate) fn run(arguments: &PsArguments) -> ExitCode {
    let overviews = match arguments.which.overviews() {
        Ok(overviews) => overviews,
        Err(error) => return error.report(),
    };
    let (here, elsewhere) = (rows(&overviews), elsewhere(&overviews));
    if arguments.json {
        let here = here.into_iter().map(|row| Either::Here(Box::new(row)));
        let all = here.chain(elsewhere.into_iter().map(|row| Either::Elsewhere(Box::new(row))));
        return render::json(&all.collect::<Vec<_>>());
    }
    let mut text = if here.is_empty() && elsewhere.is_empty() {
        "no servers\n".into()
    } else if arguments.tree {
        here.iter().map(tree).chain(elsewhere.iter().map(leaf)).collect()
    } else {
        table(&here, &elsewhere)
    };
    text.extend(overviews.iter().flat_map(|(_, overview)| &overview.servers).filter_map(trouble));
    render::text(&text)
}

/// What gateways speak with and nobody has started here.
fn elsewhere(overviews: &[(Place, Overview)]) -> Vec<Elsewhere> {
    let all = overviews.iter().flat_map(|(_, overview)| {
        overview
            .instances
            .iter()
            .map(|line| (overview.pid, line))
            .filter(|(_, line)| line.place.is_some())
    });
    all.map(|(owner, line)| Elsewhere {
        instance: line.instance,
        name: line.server.clone(),
        state: line.state.clone(),
        owner,
        gateway: line.clone(),
    })
    .collect()
}

fn rows(overviews: &[(Place, Overview)]) -> Vec<Row> {
    let known = |view: &View| {
        let mut all = overviews.iter().flat_map(|(_, overview)| &overview.instances);
        all.find(|line| line.instance == Some(view.instance)).cloned()
    };
    let places = Places::of_user();
    let views = snapshot(&places);
    let census = Census::take(&books(&places));
    let row = |view: View| Row { holding: census.of(view.instance), gateway: known(&view), view };
    views.into_iter().map(row).collect()
}

fn table(here: &[Row], elsewhere: &[Elsewhere]) -> String {
    let headers = [
        "NAME",
        "STATE",
        "LEVEL",
        "PID",
        "PROCS",
        "CONTAINERS",
        "RSS",
        "AGE",
        "LEASES",
        "CALLS",
        "RESTARTS",
        "KEY",
        "COMMAND",
        "OWNER",
        "CLIENT",
    ];
    let rows = here.iter().map(row).chain(elsewhere.iter().map(far_row));
    render::table(headers, &rows.collect::<Vec<_>>())
}

fn row(Row { view, holding, gateway }: &Row) -> [String; 15] {
    let client = view.owner.client.as_ref();
    let known = |get: &dyn Fn(&InstanceLine) -> String| gateway.as_ref().map_or("-".into(), get);
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
        known(&|line| line.leases.len().to_string()),
        known(&|line| line.calls.to_string()),
        known(&|line| line.restarts.to_string()),
        known(&|line| line.key.clone()),
        view.program.clone(),
        format!("{} ({})", view.owner.program, view.owner.process.pid),
        client.map_or("-".into(), |client| format!("{} ({})", client.name, client.process.pid)),
    ]
}

fn far_row(Elsewhere { name, state, owner, gateway: line, .. }: &Elsewhere) -> [String; 15] {
    let none = || "-".to_owned();
    [
        name.clone(),
        state.clone(),
        none(),
        none(),
        none(),
        none(),
        none(),
        render::duration(line.age),
        line.leases.len().to_string(),
        line.calls.to_string(),
        line.restarts.to_string(),
        line.key.clone(),
        line.place.clone().unwrap_or_else(none),
        format!("ostler serve ({owner})"),
        none(),
    ]
}

fn leaf(Elsewhere { name, state, gateway, .. }: &Elsewhere) -> String {
    format!("{name} ({state}, at {})\n", gateway.place.as_deref().unwrap_or_default())
}

/// What is wrong with a server, if anything is.
fn trouble(server: &ServerLine) -> Option<String> {
    let name = &server.name;
    let mut text = String::new();
    // A string takes whatever is written to it.
    for reason in &server.missing {
        let _ = writeln!(text, "{name}: not available: {reason}");
    }
    if let Some(wait) = server.backing_off {
        let (failures, seconds) = (server.failures, wait.div_ceil(1000));
        let _ = writeln!(text, "{name}: failed {failures} times in a row, next try in {seconds}s");
    }
    (!text.is_empty()).then_some(text)
}

fn tree(Row { view, holding, .. }: &Row) -> String {
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
