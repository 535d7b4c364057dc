//! `ostler ps`: lists running servers.
//!
//! The rows come from the ledgers and the process table; containers from their engines; calls, leases and clients from the gateways.
//! Remote servers have no process, so their rows come from gateways alone.

mod table;

use std::process::ExitCode;

use clap::Args;
use ostler::sweep::books;
use ostler::{Branch, Census, Holding, InstanceId, Places, View};
use ostler_gateway::admin::{InstanceLine, LoggedEvent, Overview, ServerLine};
use ostler_gateway::front::GatewaySocket;
use serde::Serialize;

use self::table::Cells;
pub(crate) use self::table::{clients, parent};
use crate::backends::BlockingBackends;
use crate::gateways::{AskError, Which};
use crate::page::Page;
use crate::{exit, out, render, states};

#[derive(Debug, Args)]
#[command(after_help = "\
Needs no gateway: it reads the ledgers of all owners of this user, and adds what gateways know, including remote servers.

States in a gateway: starting; ready (held by a session); busy (calls or subscriptions); idle (held by no session); draining (waits for calls in flight); stopping; failed (stopping after a failure).
States without a gateway: starting; running; ending (the server exited, or its owner is dead).
In both: unverified (something may be left, or the container engine does not answer); orphaned (owner and guardian are dead; `ostler reap --yes` ends it, without a cgroup leaf only processes that still carry the instance's mark).

CLIENT is the name that MCP clients give; without a gateway, the process that started `ostler run`. RESTARTS counts earlier instances that failed or were stopped. CONTAINERS is ? if the engine does not answer in time. --wide also shows how each server failed last.

Examples:
  ostler ps
  ostler ps --wide
  ostler ps --tree
  ostler ps --json | jq '.[].name'")]
pub(crate) struct PsArguments {
    /// Show all columns, at any width
    #[arg(long)]
    wide: bool,
    /// Show each process and container
    #[arg(long, conflicts_with = "wide")]
    tree: bool,
    /// Print JSON
    #[arg(long, conflicts_with_all = ["tree", "wide"])]
    json: bool,
    #[command(flatten)]
    which: Which,
}

/// An instance with a process on this machine.
#[derive(Debug, Serialize)]
struct Row {
    #[serde(flatten)]
    view: View,
    #[serde(flatten)]
    holding: Holding,
    /// What its gateway knows; none under `ostler run`.
    gateway: Option<InstanceLine>,
}

/// An instance of a remote server: no process, no ledger.
#[derive(Debug, Serialize)]
pub(crate) struct Elsewhere {
    pub(crate) instance: Option<InstanceId>,
    pub(crate) name: String,
    pub(crate) state: String,
    /// Pid of the gateway.
    #[serde(skip)]
    owner: u32,
    pub(crate) gateway: InstanceLine,
}

impl Row {
    fn state(&self) -> String {
        states::true_state(&self.view, self.gateway.as_ref())
    }
}

pub(crate) fn run(arguments: &PsArguments) -> ExitCode {
    let overviews = match arguments.which.overviews() {
        Ok(overviews) => overviews,
        Err(error) => return error.report(),
    };
    let (here, elsewhere) = match BlockingBackends::new() {
        Ok(backends) => (rows(&backends, &overviews), elsewhere(&overviews)),
        Err(error) => return AskError::Backends(error).report(),
    };
    if arguments.json {
        let here = here.iter().map(|row| states::with_state(row, &row.state()));
        let all = here.chain(elsewhere.iter().map(serde_json::to_value));
        return match all.collect::<Result<Vec<_>, _>>() {
            Ok(rows) => out::json(&rows),
            Err(error) => exit::written(Err(error.into())),
        };
    }
    let mut page = Page::new();
    if here.is_empty() && elsewhere.is_empty() {
        page.line("no servers");
    } else if arguments.tree {
        for row in &here {
            tree(&mut page, row);
        }
        for row in &elsewhere {
            leaf(&mut page, row);
        }
    } else {
        let rows = here.iter().map(Cells::from).chain(elsewhere.iter().map(Cells::from)).collect();
        if arguments.wide { table::wide(&mut page, rows) } else { table::narrow(&mut page, rows) }
    }
    for server in overviews.iter().flat_map(|(_, overview)| &overview.servers) {
        trouble(&mut page, server, arguments.wide);
    }
    out::print(&page)
}

/// Instances of remote servers.
pub(crate) fn elsewhere(overviews: &[(GatewaySocket, Overview)]) -> Vec<Elsewhere> {
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

fn rows(backends: &BlockingBackends, overviews: &[(GatewaySocket, Overview)]) -> Vec<Row> {
    let known = |view: &View| known_by(overviews, view).map(|(_, line)| line.clone());
    let places = Places::of_user();
    let views = backends.snapshot(&places);
    let census = Census::take(&books(&places));
    let row = |view: View| Row { holding: census.of(view.instance), gateway: known(&view), view };
    views.into_iter().map(row).collect()
}

/// The gateway that has an instance, and what it knows of it.
pub(crate) fn known_by<'o>(
    overviews: &'o [(GatewaySocket, Overview)],
    view: &View,
) -> Option<(&'o GatewaySocket, &'o InstanceLine)> {
    overviews.iter().find_map(|(socket, overview)| {
        let mut lines = overview.instances.iter();
        let line = lines.find(|line| line.instance == Some(view.instance))?;
        Some((socket, line))
    })
}

fn leaf(page: &mut Page, Elsewhere { name, state, gateway, .. }: &Elsewhere) {
    let place = gateway.place.as_deref().unwrap_or_default();
    page.line(format_args!("{name} ({state}, at {place})"));
}

/// Adds the problems of a server; with `--wide` also its last failure.
pub(crate) fn trouble(page: &mut Page, server: &ServerLine, is_wide: bool) {
    let name = &server.name;
    for reason in &server.missing {
        page.line(format_args!("{name}: not available: {reason}"));
    }
    if let Some(wait) = server.backing_off {
        let (failures, seconds) = (server.failures, wait.div_ceil(1000));
        page.line(format_args!("{name}: failures in a row: {failures}, next try in {seconds}s"));
    }
    let last = server.last_failure.as_ref().filter(|_| is_wide);
    if let Some(LoggedEvent { at, failure: Some(failure), .. }) = last {
        let lines = render::failure(failure);
        page.line(format_args!("{name}: failed {} ago: {}", render::age(*at), lines[0]));
        lines[1..].iter().for_each(|line| page.line(line));
    }
}

fn tree(page: &mut Page, row: &Row) {
    let Row { view, holding, .. } = row;
    page.line(format_args!("{} ({}, {})", view.name, row.state(), view.instance));
    for Branch { depth, text } in &view.tree {
        let indent = "  ".repeat(depth + 1);
        page.line(format_args!("{indent}{text}"));
    }
    for line in render::holding(holding) {
        page.line(format_args!("  {line}"));
    }
    if let Some(guardian) = &view.guardian {
        page.line(format_args!("  held by guardian {guardian}"));
    }
}
