//! `ostler why`.

use std::process::ExitCode;

use clap::Args;
use ostler::{Identity, Places, Process, View, snapshot};
use serde::Serialize;

use crate::say::say;
use crate::{exit, render};

/// What `ostler why` is told.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ostler why 4711
  ostler why 4711 --json")]
pub(crate) struct WhyArguments {
    /// The process to explain
    #[arg(value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pid: i32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What a process is to an instance.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Role {
    Server,
    Descendant,
    Guardian,
    Owner,
}

#[derive(Debug, Serialize)]
struct Answer<'v> {
    process: Process,
    role: Role,
    instance: &'v View,
}

pub(crate) fn run(arguments: &WhyArguments) -> ExitCode {
    let Some(process) = Process::with_pid(arguments.pid) else {
        say(format_args!("there is no process {}", arguments.pid));
        return exit::NOT_FOUND.into();
    };
    let views = snapshot(&Places::of_user());
    let identity = process.identity();
    let found = views.iter().find_map(|view| role_in(view, identity).map(|role| (view, role)));
    let Some((instance, role)) = found else {
        say(format_args!("process {process} belongs to no server of ostler"));
        return exit::NOT_FOUND.into();
    };
    if arguments.json {
        render::json(&Answer { process, role, instance })
    } else {
        render::text(&explain(&process, role, instance))
    }
}

fn role_in(view: &View, process: Identity) -> Option<Role> {
    if view.processes.iter().any(|seen| seen.identity() == process) {
        let is_server = view.pid == Some(process.pid);
        return Some(if is_server { Role::Server } else { Role::Descendant });
    }
    if view.guardian.as_ref().is_some_and(|guardian| guardian.identity() == process) {
        return Some(Role::Guardian);
    }
    (view.owner.process == process).then_some(Role::Owner)
}

fn explain(process: &Process, role: Role, view: &View) -> String {
    let name = &view.name;
    let role = match role {
        Role::Server => format!("is the server '{name}'"),
        Role::Descendant => format!("was caused by the server '{name}'"),
        Role::Guardian => format!("is the guardian of the server '{name}'"),
        Role::Owner => format!("is the owner of the server '{name}'"),
    };
    let guardian = view.guardian.as_ref().map_or("none".into(), |g| g.pid.to_string());
    let level = view.containment.map_or("not known yet".into(), |level| level.to_string());
    let owner = &view.owner;
    let life = if owner.process.is_alive() { "alive" } else { "dead" };
    let client = owner.client.as_ref();
    let client = client.map_or("unknown".into(), |c| format!("{} ({})", c.name, c.process.pid));
    format!(
        "process {} ({}) {role}\n\
         \x20 instance    {}, {}, started {} ago\n\
         \x20 server      {} ({})\n\
         \x20 guardian    {guardian}\n\
         \x20 containment {level}\n\
         \x20 owner       {} ({}), {life}\n\
         \x20 client      {client}\n",
        process.pid,
        process.name,
        view.instance,
        view.state,
        render::age(view.started_at),
        view.program,
        view.pid.map_or("not started".into(), |pid| pid.to_string()),
        owner.program,
        owner.process.pid,
    )
}
