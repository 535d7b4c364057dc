//! `ostler status`: shows gateways and configured servers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use ostler_gateway::admin::{Overview, ServerLine};
use ostler_gateway::config::{self, Asker, Description, Environment, describe};
use ostler_gateway::front::{GatewaySocket, last_configuration};
use serde::Serialize;

use crate::gateways::{Which, configuration};
use crate::out;
use crate::out::chain;
use crate::page::Page;

#[derive(Debug, Args)]
#[command(after_help = "\
For each gateway: socket, log, configuration, and all of its servers. Without a gateway: the configuration that `ostler connect` would use.

States: running; idle (starts on first use); backing_off (failed, and waits before the next start); unavailable (for a connected client); disabled.

Examples:
  ostler status
  ostler status --json | jq '.gateways[].servers[] | select(.state != \"idle\")'")]
pub(crate) struct StatusArguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    which: Which,
}

/// Output of `--json`.
#[derive(Debug, Serialize)]
struct Status {
    gateways: Vec<Gateway>,
    /// The configuration that the next gateway would use; none if a gateway runs.
    next: Option<Next>,
}

#[derive(Debug, Serialize)]
struct Gateway {
    pid: u32,
    socket: PathBuf,
    /// Its stderr, if that is a file.
    log: Option<PathBuf>,
    configuration: Option<String>,
    sessions: usize,
    waiting: usize,
    servers: Vec<Server>,
}

/// Configuration that the next gateway would use.
#[derive(Debug, Serialize)]
struct Next {
    configuration: Option<PathBuf>,
    /// Why there is none, or why it is invalid.
    error: Option<String>,
    servers: Vec<Server>,
}

#[derive(Debug, Serialize)]
struct Server {
    name: String,
    state: &'static str,
    instances: usize,
    /// Why it is unavailable or waits.
    reason: Option<String>,
}

pub(crate) fn run(arguments: &StatusArguments) -> ExitCode {
    let overviews = match arguments.which.overviews() {
        Ok(overviews) => overviews,
        Err(error) => return error.report(),
    };
    let gateways: Vec<Gateway> = overviews.iter().map(Gateway::of).collect();
    let next = gateways.is_empty().then(Next::find);
    if arguments.json {
        return out::json(&Status { gateways, next });
    }
    let mut page = Page::new();
    for gateway in &gateways {
        gateway.show(&mut page);
    }
    if let Some(next) = &next {
        next.show(&mut page);
    }
    out::print(&page)
}

impl Gateway {
    fn of((socket, overview): &(GatewaySocket, Overview)) -> Self {
        let instances = |name: &str| {
            overview.instances.iter().filter(|instance| instance.server == name).count()
        };
        let server = |line: &ServerLine| Server::of(line, instances(&line.name));
        Self {
            pid: overview.pid,
            socket: socket.path().to_owned(),
            log: log_of(overview.pid),
            configuration: overview.configuration.clone(),
            sessions: overview.sessions,
            waiting: overview.waiting,
            servers: overview.servers.iter().map(server).collect(),
        }
    }

    fn show(&self, page: &mut Page) {
        let Self { pid, sessions, waiting, .. } = self;
        page.line(format_args!("gateway  pid {pid}, sessions: {sessions}, waiting: {waiting}"));
        page.line(format_args!("socket   {}", self.socket.display()));
        let log = self.log.as_ref().map(|log| log.display().to_string());
        page.line(format_args!("log      {}", log.as_deref().unwrap_or("stderr of the gateway")));
        let none = "none: it offers an example server";
        page.line(format_args!("config   {}", self.configuration.as_deref().unwrap_or(none)));
        table(page, &self.servers);
    }
}

/// The file that stderr of a process goes to, if it is a file.
fn log_of(pid: u32) -> Option<PathBuf> {
    let target = fs::read_link(format!("/proc/{pid}/fd/2")).ok()?;
    Some(target).filter(|target| target.is_file())
}

impl Next {
    fn find() -> Self {
        let empty = |error| Self { configuration: None, error, servers: Vec::new() };
        match configuration(None, Asker::Client) {
            Ok(Some(path)) => Self::of(path),
            Ok(None) => match last_configuration() {
                Ok(followed) => followed.map_or_else(|| empty(None), Self::of),
                Err(error) => empty(Some(chain(&error))),
            },
            Err(error) => empty(Some(chain(&error))),
        }
    }

    fn of(path: PathBuf) -> Self {
        let environment = Environment::of_process();
        let directory = std::env::current_dir().unwrap_or_else(|_| Path::new("/").to_owned());
        let Ok(file) = config::load(&path) else {
            let error = Some("it can't be used; `ostler check` says why".to_owned());
            return Self { configuration: Some(path), error, servers: Vec::new() };
        };
        let entries = file.servers.values();
        let described = entries.map(|entry| describe(entry, &environment, &directory));
        let servers = described.map(Server::described).collect();
        Self { configuration: Some(path), error: None, servers }
    }

    fn show(&self, page: &mut Page) {
        page.line("no gateway runs; `ostler connect` or `ostler serve` starts one");
        let path = self.configuration.as_ref().map(|path| path.display().to_string());
        page.line(format_args!("config   {}", path.as_deref().unwrap_or("none")));
        if let Some(error) = &self.error {
            page.line(format_args!("error    {error}"));
        }
        table(page, &self.servers);
    }
}

impl Server {
    fn of(line: &ServerLine, instances: usize) -> Self {
        let backing_off = || {
            let seconds = line.backing_off?.div_ceil(1000);
            Some(format!("failures in a row: {}, next try in {seconds}s", line.failures))
        };
        let unavailable = || (!line.missing.is_empty()).then(|| line.missing.join("; "));
        let (state, reason) = if line.disabled.is_some() {
            ("disabled", line.disabled.clone())
        } else if instances > 0 {
            ("running", unavailable())
        } else if let Some(reason) = backing_off() {
            ("backing_off", Some(reason))
        } else if let Some(reason) = unavailable() {
            ("unavailable", Some(reason))
        } else {
            ("idle", None)
        };
        Self { name: line.name.clone(), state, instances, reason }
    }

    fn described(of: Description) -> Self {
        let reason = of.disabled.or_else(|| of.warnings.first().cloned());
        let state = if reason.is_some() { "unavailable" } else { "idle" };
        Self { name: of.name, state, instances: 0, reason }
    }
}

fn table(page: &mut Page, servers: &[Server]) {
    if servers.is_empty() {
        return page.line("no servers");
    }
    let row = |server: &Server| {
        let reason = server.reason.clone().unwrap_or_else(|| "-".into());
        [server.name.clone(), server.state.to_owned(), server.instances.to_string(), reason]
    };
    let rows: Vec<_> = servers.iter().map(row).collect();
    page.table(["NAME", "STATE", "INSTANCES", "REASON"], &rows);
}
