//! `ostler doctor`: an audit of this machine, or a trial of one server.

mod report;
mod trial;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use ostler::Places;

use crate::backends::BlockingBackends;
use crate::doctor::{Audit, Machine, Report, engines};
use crate::gateways::{AskError, Which};
use crate::{exit, out};

#[derive(Debug, Args)]
#[command(after_help = "\
Shows what ostler can do on this machine, and what other hosts left on it: MCP servers whose host is gone, helpers of such servers, containers of Docker's MCP gateway without a client; also copies of one server that could be shared, zombies under living hosts, and secrets on command lines. Each find has an id, evidence, host, age and memory.

Changes nothing: it runs only the programs whose version it shows, and ends none. It never judges processes of other users.

With SERVER: starts this server once, as a gateway with this directory and environment would, does the handshake, lists its tools and stops it. Prints each step; at the first one that fails, the reason and what to do. Instances of a running gateway are not touched.

Exit status: 0 if nothing was left behind, 4 if something was. With SERVER: 1 if a step failed, 3 if there is no such server, 130 if stopped by ^C.

Examples:
  ostler doctor
  ostler doctor github
  ostler doctor --json | jq '.finds[] | select(.kind == \"orphaned_server\")'
  ostler reap p4711-1xk2f --yes    end one find")]
pub(crate) struct DoctorArguments {
    /// Try this server instead: start it once, list its tools, stop it
    #[arg(conflicts_with = "socket")]
    server: Option<String>,
    #[arg(help = "Read this configuration [env: OSTLER_CONFIG]")]
    #[arg(long, value_name = "FILE", requires = "server")]
    config: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    which: Which,
}

pub(crate) fn run(arguments: &DoctorArguments) -> ExitCode {
    match &arguments.server {
        Some(server) => trial::run(server, arguments.config.as_deref(), arguments.json),
        None => audit(arguments),
    }
}

fn audit(arguments: &DoctorArguments) -> ExitCode {
    let backends = match BlockingBackends::new() {
        Ok(backends) => backends,
        Err(error) => return AskError::Backends(error).report(),
    };
    let engines = engines();
    let mut audit = Audit::take(&engines);
    audit.add_dead_owners(&backends, &Places::of_user());
    let machine = Machine::look(&engines, &arguments.which);
    let report = Report::new(&machine, &audit.finds, &audit.notes);
    let written = if arguments.json { out::json(&report) } else { out::print(&report.page()) };
    if report.totals.left_over > 0 && written == ExitCode::SUCCESS {
        return exit::LEFT_OVER.into();
    }
    written
}
