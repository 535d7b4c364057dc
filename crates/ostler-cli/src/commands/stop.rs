//! `ostler stop`: stops servers of gateways and of `ostler run`, and waits for the proof.
//!
//! Targets come from the ledgers and, for remote servers, from gateways. A gateway is asked to stop its own instances, so that it
//! does not count the end as a failure. All other instances are stopped by their guardians, and those without a guardian by a
//! sweep. Then the ledgers are polled until the targets are gone.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use ostler::{InstanceId, Places, View, duration};
use ostler_gateway::admin::{Reply, Request};
use ostler_gateway::front::GatewayConnection;
use serde::Serialize;

use crate::backends::BlockingBackends;
use crate::gateways::{self, AskError, Which};
use crate::out::say;
use crate::page::Page;
use crate::{exit, out};

const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Shortest prefix of an id that is accepted.
const SHORTEST_ID: usize = 4;

#[derive(Debug, Args)]
#[command(after_help = "\
A gateway stops its own servers: it waits for calls in flight, and the next call starts the server again. Otherwise the guardian of the server sends SIGTERM, and SIGKILL after the grace that the server was started with. Stopping a configured server that does not run succeeds.

Exit status: 3 if there is no such server, 4 if something is left.

Examples:
  ostler stop github
  ostler stop 4711
  ostler stop --all")]
pub(crate) struct StopArguments {
    /// Name, pid of any process, or start of the instance id
    #[arg(required_unless_present = "all", value_name = "SERVER")]
    targets: Vec<String>,
    /// Stop every server of this user
    #[arg(long, conflicts_with = "targets")]
    all: bool,
    /// Wait at most this long
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration::parse)]
    timeout: Duration,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    which: Which,
}

/// Output of `--json`.
#[derive(Debug, Serialize)]
struct Verdict {
    /// None if the server was not running.
    instance: Option<InstanceId>,
    name: String,
    stopped: bool,
}

#[derive(Debug)]
struct Target {
    instance: InstanceId,
    name: String,
    /// From ledger and process table; none for a remote server.
    view: Option<View>,
}

impl Target {
    fn all(
        backends: &BlockingBackends,
        places: &Places,
        which: &Which,
    ) -> Result<Vec<Self>, AskError> {
        let here = backends.snapshot(places).into_iter().map(|view| Self {
            instance: view.instance,
            name: view.name.clone(),
            view: Some(view),
        });
        let elsewhere = elsewhere(which)?;
        let elsewhere =
            elsewhere.into_iter().map(|(instance, name)| Self { instance, name, view: None });
        Ok(here.chain(elsewhere).collect())
    }

    fn is_called(&self, target: &str, backends: &BlockingBackends) -> bool {
        let has_part = |view| backends.part(view, target).is_some();
        self.name == target || self.view.as_ref().is_some_and(has_part)
    }
}

/// Instances of remote servers, which are in no ledger.
fn elsewhere(which: &Which) -> Result<Vec<(InstanceId, String)>, AskError> {
    let lines = which.overviews()?.into_iter().flat_map(|(_, overview)| overview.instances);
    let far = lines.filter(|line| line.place.is_some());
    Ok(far.filter_map(|line| Some((line.instance?, line.server))).collect())
}

pub(crate) fn run(arguments: &StopArguments) -> ExitCode {
    match stop(arguments) {
        Ok(code) => code,
        Err(error) => error.report(),
    }
}

fn stop(arguments: &StopArguments) -> Result<ExitCode, AskError> {
    let places = Places::of_user();
    let backends = BlockingBackends::new().map_err(AskError::Backends)?;
    let all = Target::all(&backends, &places, &arguments.which)?;
    let mut wanted = BTreeSet::new();
    let mut idle = BTreeSet::new();
    for target in &arguments.targets {
        let meant = meant_by(target, &all, &backends);
        if meant.is_empty() && is_configured(target, &arguments.which)? {
            idle.insert(target.clone());
        } else if meant.is_empty() {
            say(format_args!("there is no server '{target}'; `ostler ps` lists them"));
            return Ok(exit::NOT_FOUND.into());
        }
        wanted.extend(meant);
    }
    let is_target = |one: &Target| arguments.all || wanted.contains(&one.instance);
    let targets: Vec<Target> = all.into_iter().filter(is_target).collect();
    ask(&backends, &places, &targets, &arguments.which)?;
    let left = wait(&backends, &places, &targets, arguments);
    Ok(report(&targets, &idle, &left, arguments.json))
}

/// Has one instance stopped, without waiting for its end. Returns false if it is not there.
pub(crate) fn begin(instance: InstanceId, which: &Which) -> Result<bool, AskError> {
    let places = Places::of_user();
    let backends = BlockingBackends::new().map_err(AskError::Backends)?;
    let mut targets = Target::all(&backends, &places, which)?;
    targets.retain(|one| one.instance == instance);
    ask(&backends, &places, &targets, which)?;
    Ok(!targets.is_empty())
}

/// Whether a gateway has this server configured.
fn is_configured(target: &str, which: &Which) -> Result<bool, AskError> {
    let mut servers = which.overviews()?.into_iter().flat_map(|(_, overview)| overview.servers);
    Ok(servers.any(|server| server.name == target))
}

/// Instances that a target means. Names and pids come first, because a pid may be the prefix of another instance's id.
fn meant_by(target: &str, all: &[Target], backends: &BlockingBackends) -> Vec<InstanceId> {
    let by = |is_meant: &dyn Fn(&Target) -> bool| -> Vec<InstanceId> {
        all.iter().filter(|one| is_meant(one)).map(|one| one.instance).collect()
    };
    let exactly = by(&|one| one.is_called(target, backends));
    if !exactly.is_empty() || target.len() < SHORTEST_ID {
        return exactly;
    }
    by(&|one| one.instance.to_string().starts_with(target))
}

fn ask(
    backends: &BlockingBackends,
    places: &Places,
    targets: &[Target],
    which: &Which,
) -> Result<(), AskError> {
    let asked = ask_gateways(targets, which)?;
    let here = targets.iter().filter_map(|one| one.view.as_ref());
    let is_alone = |view: &View| !asked.contains(&view.instance) && !backends.ask(view);
    let alone = here.filter(|view| is_alone(view)).count();
    // An instance without a guardian belongs to a dead owner, or soon will.
    if alone > 0 {
        backends.sweep(places);
    }
    Ok(())
}

/// Asks each gateway to stop its own targets, so that it does not count them as failures. Returns the instances that are stopping.
fn ask_gateways(targets: &[Target], which: &Which) -> Result<BTreeSet<InstanceId>, AskError> {
    let mut asked = BTreeSet::new();
    for (place, overview) in which.overviews()? {
        let own = |one: &&Target| {
            overview.instances.iter().any(|line| line.instance == Some(one.instance))
        };
        let own: Vec<InstanceId> = targets.iter().filter(own).map(|one| one.instance).collect();
        if own.is_empty() {
            continue;
        }
        // A gateway that exits meanwhile stops its servers as well.
        let answer =
            GatewayConnection::to(&place).ok().map(|it| gateways::ask(&it, Request::Stop(own)));
        if let Some(Ok(Reply::Stopping(ids))) = answer {
            asked.extend(ids);
        }
    }
    Ok(asked)
}

/// Waits for the targets to end. Returns those that are left at the timeout.
fn wait(
    backends: &BlockingBackends,
    places: &Places,
    targets: &[Target],
    StopArguments { timeout, which, .. }: &StopArguments,
) -> BTreeSet<InstanceId> {
    let wanted: BTreeSet<InstanceId> = targets.iter().map(|one| one.instance).collect();
    let is_far = targets.iter().any(|one| one.view.is_none());
    let begin = Instant::now();
    let mut told = false;
    loop {
        let there = backends.snapshot(places).into_iter().map(|view| view.instance);
        // A gateway that has exited has no remote sessions.
        let far = if is_far { elsewhere(which).unwrap_or_default() } else { Vec::new() };
        let there = there.chain(far.into_iter().map(|(instance, _)| instance));
        let left: BTreeSet<InstanceId> = there.filter(|id| wanted.contains(id)).collect();
        if left.is_empty() || begin.elapsed() > *timeout {
            return left;
        }
        if begin.elapsed() > Duration::from_secs(1) && !told && out::is_watched() {
            say(format_args!("waiting for {} of {}", left.len(), wanted.len()));
            told = true;
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

fn report(
    targets: &[Target],
    idle: &BTreeSet<String>,
    left: &BTreeSet<InstanceId>,
    as_json: bool,
) -> ExitCode {
    let stopped = |one: &Target| Verdict {
        instance: Some(one.instance),
        name: one.name.clone(),
        stopped: !left.contains(&one.instance),
    };
    let not_running = |name: &String| Verdict { instance: None, name: name.clone(), stopped: true };
    let all: Vec<Verdict> =
        targets.iter().map(stopped).chain(idle.iter().map(not_running)).collect();
    let mut page = Page::new();
    for one in &all {
        let end = match (one.instance, one.stopped) {
            (None, _) => "not running",
            (Some(_), true) => "stopped",
            (Some(_), false) => "still there; its guardian continues",
        };
        page.line(format_args!("{}: {end}", one.name));
    }
    let written = match (as_json, all.is_empty()) {
        (true, _) => out::json(&all),
        (false, true) => out::print_line("no servers"),
        (false, false) => out::print(&page),
    };
    if left.is_empty() { written } else { exit::LEFT_OVER.into() }
}
