//! Capabilities of this machine: containment, container engines, launchers, configuration, gateways.

use std::fs;
use std::path::PathBuf;

use ostler::foreign::FoundEngine;
use ostler::{Level, leaf_here};
use rustix::process::geteuid;
use serde::Serialize;

use super::tools::{Tool, tools};
use crate::commands::check;
use crate::gateways::Which;
use crate::out::chain;

/// Programs whose versions are shown.
const TOOLS: [&str; 6] = ["docker", "podman", "node", "npx", "uv", "uvx"];

/// State of this machine.
#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    pub(crate) containment: Containment,
    pub(crate) engines: Vec<Engine>,
    pub(crate) tools: Vec<Tool>,
    pub(crate) configuration: Configuration,
    pub(crate) gateways: Vec<Gateway>,
}

/// Available levels of containment.
#[derive(Debug, Serialize)]
pub(crate) struct Containment {
    /// Level that `auto` gives.
    pub(crate) auto: Level,
    /// The cgroup in which leaves are created.
    pub(crate) cgroup: Option<PathBuf>,
    /// Why leaves are unavailable, and how to change that.
    pub(crate) no_leaf: Option<String>,
    /// Why `strict` is unavailable, according to kernel settings.
    pub(crate) no_strict: Option<String>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Engine {
    pub(crate) command: &'static str,
    pub(crate) endpoint: String,
    pub(crate) version: Option<String>,
    pub(crate) error: Option<String>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Configuration {
    pub(crate) file: Option<PathBuf>,
    pub(crate) servers: usize,
    /// Problems that `ostler check` reports.
    pub(crate) problems: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Gateway {
    pub(crate) pid: u32,
    pub(crate) socket: PathBuf,
    pub(crate) sessions: usize,
    pub(crate) instances: usize,
}

impl Machine {
    pub(crate) fn look(engines: &[FoundEngine], which: &Which) -> Self {
        Self {
            containment: Containment::here(),
            engines: engines.iter().map(Engine::of).collect(),
            tools: tools(&TOOLS),
            configuration: Configuration::here(),
            gateways: gateways(which),
        }
    }
}

impl Containment {
    fn here() -> Self {
        let leaf = leaf_here();
        let auto = if leaf.is_ok() { Level::Leaf } else { Level::Tree };
        let hint = "a service or scope with Delegate=yes has one";
        let no_leaf = leaf.as_ref().err().map(|error| format!("{}; {hint}", chain(error)));
        Self { auto, cgroup: leaf.ok(), no_leaf, no_strict: no_strict() }
    }
}

/// Kernel setting that forbids user namespaces. Root needs none.
fn no_strict() -> Option<String> {
    if geteuid().is_root() {
        return None;
    }
    let forbidding = [
        ("user/max_user_namespaces", "0"),
        ("kernel/unprivileged_userns_clone", "0"),
        ("kernel/apparmor_restrict_unprivileged_userns", "1"),
    ];
    let forbids = |(name, value): &(&str, &str)| {
        fs::read_to_string(format!("/proc/sys/{name}")).is_ok_and(|now| now.trim() == *value)
    };
    let setting = forbidding.iter().find(|setting| forbids(setting));
    setting.map(|(name, value)| format!("the setting {} is {value}", name.replace('/', ".")))
}

impl Engine {
    fn of(found: &FoundEngine) -> Self {
        let (version, error) = match &found.version {
            Ok(version) => (Some(version.clone()), None),
            Err(error) => (None, Some(error.reason.clone())),
        };
        Self { command: found.command, endpoint: found.endpoint.to_string(), version, error }
    }
}

impl Configuration {
    fn here() -> Self {
        match check::examine(None) {
            Ok(report) => Self {
                servers: report.servers.len(),
                problems: report
                    .complaints()
                    .iter()
                    .map(|complaint| first_line(complaint))
                    .collect(),
                file: Some(report.config),
            },
            Err(check::CheckError::NotFound(_)) => {
                Self { file: None, servers: 0, problems: Vec::new() }
            }
            Err(error) => Self { file: None, servers: 0, problems: vec![chain(&error)] },
        }
    }
}

/// First line of a problem; the other lines show the place in the file.
fn first_line(complaint: &str) -> String {
    complaint.lines().next().unwrap_or_default().to_owned()
}

fn gateways(which: &Which) -> Vec<Gateway> {
    let overviews = which.overviews().unwrap_or_default().into_iter();
    overviews
        .map(|(socket, overview)| Gateway {
            pid: overview.pid,
            socket: socket.path().to_owned(),
            sessions: overview.sessions,
            instances: overview.instances.len(),
        })
        .collect()
}
