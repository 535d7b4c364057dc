//! `ostler doctor`.

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

Exit status: 0 if nothing was left behind, 4 if something was.

Examples:
  ostler doctor
  ostler doctor --json | jq '.finds[] | select(.kind == \"orphaned_server\")'
  ostler reap p4711-1xk2f --yes    end one find")]
pub(crate) struct DoctorArguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    which: Which,
}

pub(crate) fn run(arguments: &DoctorArguments) -> ExitCode {
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
