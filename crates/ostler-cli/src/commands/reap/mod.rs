//! `ostler reap`: shows or ends leftovers of dead owners.

mod chosen;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::process::ExitCode;

use clap::Args;
use ostler::backend::{Evidence, Fields};
use ostler::ledger::PROCESS;
use ostler::sweep::{DeadOwner, dead_owners};
use ostler::{Census, Holding, InstanceId, Outcome, Places};
use ostler_gateway::front::remove_stale;
use serde::Serialize;

use crate::backends::BlockingBackends;
use crate::doctor::{self, Audit, Certainty, Find, FindId, engines};
use crate::gateways::AskError;
use crate::page::Page;
use crate::{exit, out, render};

#[derive(Debug, Args)]
#[command(after_help = "\
Certain finds are what a dead owner of ostler left. `--yes` without an id ends only these, and only if the guardian is dead too: a living guardian ends them by itself. An owner is dead when the kernel has released its lock. Without a cgroup leaf, only processes that still carry the instance's mark in their environment can be found. Containers are found by the label of their instance, never by name or image.

Likely finds are what other hosts seem to have left. They end only by their id: SIGTERM to the process and all below it, SIGKILL after a grace, each only while pid and start time are the same; containers through their engine, by id. `ostler doctor` shows the same finds.

Exit status: 4 if something is left, or may be because a container engine does not answer.

Examples:
  ostler reap                      show what would be ended, and the evidence
  ostler reap --yes                end certain finds
  ostler reap p4711-1xk2f --yes    end one find of another host")]
pub(crate) struct ReapArguments {
    /// Finds of other hosts to end
    #[arg(value_name = "FIND-ID")]
    finds: Vec<FindId>,
    /// End it, instead of only showing it
    #[arg(long)]
    yes: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Evidence of one instance, and its outcome.
#[derive(Debug, Serialize)]
struct Finding {
    certainty: Certainty,
    instance: InstanceId,
    name: String,
    program: String,
    /// Backend that started it.
    backend: String,
    owner: i32,
    /// Evidence from the backend as text lines; `traces` has it as JSON fields.
    #[serde(skip)]
    lines: Vec<(&'static str, String)>,
    #[serde(flatten)]
    traces: Fields,
    #[serde(flatten)]
    holding: Holding,
    outcome: Fate,
    /// What is left or may be left.
    left: Option<String>,
}

impl Finding {
    fn is_owed(&self) -> bool {
        match self.outcome {
            Fate::Gone | Fate::MarkedGone => false,
            Fate::Left => true,
            Fate::Found | Fate::LeftToItsGuardian => self.holding.unreachable.is_some(),
        }
    }
}

#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Fate {
    /// Not touched, because `--yes` was not given.
    Found,
    LeftToItsGuardian,
    /// Proven gone.
    Gone,
    /// Every marked process is gone; a process that cleared its environment cannot be found.
    MarkedGone,
    /// Still there.
    Left,
}

/// An element of the JSON output; both kinds have a `certainty`.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Shown<'f> {
    Certain(&'f Finding),
    Likely(&'f Find),
}

pub(crate) fn run(arguments: &ReapArguments) -> ExitCode {
    if !arguments.finds.is_empty() {
        let act = if arguments.yes { chosen::Act::End } else { chosen::Act::Show };
        return chosen::run(&arguments.finds, act, arguments.json);
    }
    if arguments.yes {
        remove_stale();
    }
    let backends = match BlockingBackends::new() {
        Ok(backends) => backends,
        Err(error) => return AskError::Backends(error).report(),
    };
    let owners = dead_owners(&Places::of_user());
    let census = Census::take(owners.iter().map(DeadOwner::book));
    let findings: Vec<Finding> = owners
        .into_iter()
        .flat_map(|owner| treat(&backends, owner, &census, arguments.yes))
        .collect();
    let likely = if arguments.yes { Vec::new() } else { likely() };
    let written = if arguments.json {
        let certain = findings.iter().map(Shown::Certain);
        out::json(&certain.chain(likely.iter().map(Shown::Likely)).collect::<Vec<_>>())
    } else {
        out::print(&report(&findings, &likely, arguments.yes))
    };
    if findings.iter().any(Finding::is_owed) {
        return exit::LEFT_OVER.into();
    }
    written
}

/// Likely leftovers of other hosts.
fn likely() -> Vec<Find> {
    let finds = Audit::take(&engines()).finds;
    finds.into_iter().filter(|find| find.certainty == Certainty::Likely).collect()
}

fn treat(
    backends: &BlockingBackends,
    owner: DeadOwner,
    census: &Census,
    act: bool,
) -> Vec<Finding> {
    let pid = owner.book().owner.process.pid;
    let evidence = backends.list(&owner);
    let outcomes = act.then(|| backends.settle(owner));
    let fate = |id: InstanceId, evidence: &Evidence| match &outcomes {
        _ if evidence.traces.is_tended => Fate::LeftToItsGuardian,
        None => Fate::Found,
        Some(outcomes) => fate_of(outcomes, id),
    };
    let left = |id: InstanceId| match outcomes.as_ref()?.get(&id)? {
        Outcome::Gone(_) => None,
        Outcome::Unverified(residue) => Some(residue.to_string()),
    };
    let finding = |(instance, evidence): (InstanceId, Evidence)| Finding {
        certainty: Certainty::Certain,
        instance,
        outcome: fate(instance, &evidence),
        name: evidence.entry.intent.name,
        program: evidence.entry.intent.program,
        backend: evidence.entry.intent.backend,
        owner: pid,
        lines: evidence.traces.lines,
        traces: evidence.traces.fields,
        holding: census.of(instance),
        left: left(instance),
    };
    evidence.into_iter().map(finding).collect()
}

fn fate_of(outcomes: &BTreeMap<InstanceId, Outcome>, id: InstanceId) -> Fate {
    match outcomes.get(&id) {
        Some(Outcome::Gone(_)) => Fate::Gone,
        Some(Outcome::Unverified(ostler::Residue::Unwatched)) => Fate::MarkedGone,
        Some(Outcome::Unverified(_)) | None => Fate::Left,
    }
}

fn report(findings: &[Finding], likely: &[Find], acted: bool) -> Page {
    if findings.is_empty() && likely.is_empty() {
        return Page::of("nothing to reap: no dead owner has left anything");
    }
    let mut page = Page::new();
    for finding in findings {
        describe(&mut page, finding);
    }
    if !acted && findings.iter().any(|finding| finding.outcome == Fate::Found) {
        page.line("");
        page.line("Nothing was touched. To end it: ostler reap --yes");
    }
    if !likely.is_empty() {
        if !findings.is_empty() {
            page.line("");
        }
        page.line("Likely left behind by other hosts; each ends only by its id:");
        for find in likely {
            doctor::describe(&mut page, find);
        }
    }
    page
}

fn describe(page: &mut Page, finding: &Finding) {
    let fate = match finding.outcome {
        Fate::Found => "would be ended",
        Fate::LeftToItsGuardian => "left to its guardian",
        Fate::Gone => "gone",
        Fate::MarkedGone => "all that carries its mark is gone",
        Fate::Left => "still there",
    };
    page.line(format_args!("{}: {fate}", finding.name));
    let mut line = |what: &str, value: &dyn Display| {
        page.line(format_args!("  {what:<10} {value}"));
    };
    line("instance", &finding.instance);
    line("command", &finding.program);
    line("owner", &format_args!("{}, dead: its lock is free", finding.owner));
    if finding.backend != PROCESS {
        line("backend", &finding.backend);
    }
    for (label, value) in &finding.lines {
        line(label, value);
    }
    for container in &finding.holding.containers {
        let container = render::container(container);
        line("container", &format_args!("{container}, carries the instance's label"));
    }
    match (&finding.left, &finding.holding.unreachable) {
        (Some(left), _) if finding.is_owed() => line("left", left),
        (None, Some(why)) if finding.is_owed() => {
            line("containers", &format_args!("not known: {why}"));
        }
        (_, _) => {}
    }
}
