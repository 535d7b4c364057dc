//! `ostler why CONTAINER`.

use std::process::ExitCode;

use ostler::sweep::books;
use ostler::{Census, ContainerView, Places, View};
use ostler_gateway::admin::InstanceLine;
use serde::Serialize;
use serde_json::Value;

use super::{Target, WhyArguments, explain, known_to_gateway};
use crate::out::{self, say};
use crate::page::Page;
use crate::states::{true_state, with_state};
use crate::{exit, render};

#[derive(Debug, Serialize)]
struct Reply<'v> {
    container: &'v ContainerView,
    /// None if no ledger has it any more.
    instance: Option<Value>,
    /// What its gateway knows.
    gateway: Option<InstanceLine>,
}

pub(super) fn run(arguments: &WhyArguments, places: &Places, views: &[View]) -> ExitCode {
    let target = &arguments.target;
    let census = Census::take(&books(places));
    let container = match meant_by(&target.0, &census).as_slice() {
        [] => return not_found(target, &census),
        [container] => *container,
        several => {
            let names: Vec<String> = several.iter().map(|one| render::container(one)).collect();
            say(format_args!("'{}' is ambiguous: {}", target.0, names.join(", ")));
            return exit::FAILED.into();
        }
    };
    let instance = views.iter().find(|view| view.instance == container.instance);
    let gateway = instance.map(|view| known_to_gateway(&arguments.which, view)).transpose();
    let gateway = match gateway {
        Ok(gateway) => gateway.flatten(),
        Err(error) => return error.report(),
    };
    if arguments.json {
        let with_state = |view: &View| with_state(view, &true_state(view, gateway.as_ref()));
        return match instance.map(with_state).transpose() {
            Ok(instance) => out::json(&Reply { container, instance, gateway }),
            Err(error) => exit::written(Err(error.into())),
        };
    }
    let what = format!("container {}", render::container(container));
    out::print(&match instance {
        Some(view) => {
            let role = format!("was caused by the server '{}'", view.name);
            explain(&what, &role, view, gateway.as_ref())
        }
        None => Page::of(format_args!(
            "{what} was caused by instance {}, which no ledger of this user knows",
            container.instance
        )),
    })
}

/// Containers that a target means. Names come first, because a name may be the prefix of another container's id.
fn meant_by<'c>(target: &str, census: &'c Census) -> Vec<&'c ContainerView> {
    let by = |is_meant: &dyn Fn(&ContainerView) -> bool| -> Vec<&'c ContainerView> {
        census.containers().filter(|one| is_meant(one)).collect()
    };
    let named = by(&|one| one.names.iter().any(|name| name == target));
    if named.is_empty() { by(&|one| one.id.starts_with(target)) } else { named }
}

fn not_found(target: &Target, census: &Census) -> ExitCode {
    let Target(text) = target;
    match target.pid() {
        Some(pid) => say(format_args!("there is no process {pid}")),
        None => say(format_args!("no server of ostler has a container '{text}'")),
    }
    let mut is_complete = true;
    for unreachable in census.unreachable() {
        is_complete = false;
        say(format_args!("it may be in another engine: {unreachable}"));
    }
    if is_complete { exit::NOT_FOUND.into() } else { exit::FAILED.into() }
}
