//! `ostler why`: explains which server caused a process or container.

mod container;

use std::fmt::Display;
use std::process::ExitCode;
use std::str::FromStr;

use clap::Args;
use ostler::backend::{Fields, Part, Role};
use ostler::{Places, Process, View};
use ostler_gateway::admin::InstanceLine;
use serde::Serialize;
use serde_json::Value;

use crate::backends::BlockingBackends;
use crate::gateways::{AskError, Which};
use crate::out::{self, say};
use crate::page::Page;
use crate::states::{self, true_state};
use crate::{exit, render};

#[derive(Debug, Args)]
#[command(after_help = "\
A number is a process if there is one, otherwise the start of a container id. Only engines in which servers of ostler may have containers are asked.

Exit status: 3 if no server caused it.

Examples:
  ostler why 4711
  ostler why 4711 --json
  ostler why happy_horse
  ostler why 0123456789ab")]
pub(crate) struct WhyArguments {
    /// Pid, or name or start of the id of a container
    #[arg(value_name = "PID|CONTAINER")]
    target: Target,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    which: Which,
}

/// A pid, a container's name, or a prefix of its id.
#[derive(Clone, Debug)]
struct Target(String);

#[derive(Debug, thiserror::Error)]
#[error("give a pid, a container's name, or at least two characters of its id")]
struct InvalidTarget;

impl FromStr for Target {
    type Err = InvalidTarget;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_named = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
        let is_container = text.len() > 1 && text.chars().all(is_named);
        let target = Self(text.to_owned());
        if is_container || target.pid().is_some() { Ok(target) } else { Err(InvalidTarget) }
    }
}

impl Target {
    fn pid(&self) -> Option<i32> {
        self.0.parse().ok().filter(|pid| *pid > 0)
    }
}

#[derive(Debug, Serialize)]
struct Reply {
    /// The fields of the part that was asked for.
    #[serde(flatten)]
    part: Fields,
    role: Role,
    instance: Value,
    /// What its gateway knows.
    gateway: Option<InstanceLine>,
}

pub(crate) fn run(arguments: &WhyArguments) -> ExitCode {
    let places = Places::of_user();
    let backends = match BlockingBackends::new() {
        Ok(backends) => backends,
        Err(error) => return AskError::Backends(error).report(),
    };
    let (views, Target(what)) = (backends.snapshot(&places), &arguments.target);
    let found = views.iter().find_map(|view| backends.part(view, what).map(|part| (view, part)));
    let Some((instance, part)) = found else {
        let Some(process) = arguments.target.pid().and_then(Process::with_pid) else {
            return container::run(arguments, &places, &views);
        };
        say(format_args!("process {process} belongs to no server of ostler"));
        return exit::NOT_FOUND.into();
    };
    let gateway = match known_to_gateway(&arguments.which, instance) {
        Ok(gateway) => gateway,
        Err(error) => return error.report(),
    };
    if arguments.json {
        let instance = states::with_state(instance, &true_state(instance, gateway.as_ref()));
        return match instance {
            Ok(instance) => {
                let Part { role, fields: part, .. } = part;
                out::json(&Reply { part, role, instance, gateway })
            }
            Err(error) => exit::written(Err(error.into())),
        };
    }
    let role = says(part.role, &instance.name);
    out::print(&explain(&part.title, &role, instance, gateway.as_ref()))
}

fn known_to_gateway(which: &Which, view: &View) -> Result<Option<InstanceLine>, AskError> {
    let overviews = which.overviews()?.into_iter().flat_map(|(_, overview)| overview.instances);
    Ok(overviews.into_iter().find(|line| line.instance == Some(view.instance)))
}

/// Adds the gateway's knowledge: key, starter, leases, calls.
fn on_behalf_of(line: &InstanceLine, page: &mut Page) {
    let held = if line.leases.is_empty() { "no session".into() } else { line.leases.join("; ") };
    entry(page, "shared by", &line.key);
    entry(page, "started for", &line.by);
    entry(page, "held by", held);
    entry(page, "calls", line.calls);
}

fn says(role: Role, name: &str) -> String {
    match role {
        Role::Server => format!("is the server '{name}'"),
        Role::Guardian => format!("is the guardian of the server '{name}'"),
        Role::Owner => format!("is the owner of the server '{name}'"),
        _ => format!("was caused by the server '{name}'"),
    }
}

fn explain(what: &str, role: &str, view: &View, gateway: Option<&InstanceLine>) -> Page {
    let guardian = view.guardian.as_deref().unwrap_or("none");
    let level = view.containment.map_or("not known yet".into(), |level| level.to_string());
    let owner = &view.owner;
    let life = if owner.process.is_alive() { "alive" } else { "dead" };
    let client = owner.client.as_ref();
    let client = client.map_or("unknown".into(), |c| format!("{} ({})", c.name, c.process.pid));
    let (age, handle) = (render::age(view.started_at), view.handle.as_deref());
    let handle = handle.unwrap_or("not started");
    let state = true_state(view, gateway);
    let mut page = Page::of(format_args!("{what} {role}"));
    entry(&mut page, "instance", format_args!("{}, {state}, started {age} ago", view.instance));
    entry(&mut page, "server", format_args!("{} ({handle})", view.program));
    entry(&mut page, "guardian", guardian);
    entry(&mut page, "containment", level);
    entry(&mut page, "owner", format_args!("{} ({}), {life}", owner.program, owner.process.pid));
    entry(&mut page, "client", client);
    if let Some(line) = gateway {
        on_behalf_of(line, &mut page);
    }
    page
}

fn entry(page: &mut Page, what: &str, value: impl Display) {
    page.line(format_args!("  {what:<11} {value}"));
}
