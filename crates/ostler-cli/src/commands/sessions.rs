//! `ostler sessions`: lists connected clients.

use std::process::ExitCode;

use clap::Args;
use ostler_gateway::admin::{Reply, Request, SessionLine};

use crate::gateways::{AskError, Which};
use crate::page::Page;
use crate::{out, render};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ostler sessions
  ostler sessions --json | jq '.[] | select(.calls > 0)'")]
pub(crate) struct SessionsArguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    which: Which,
}

pub(crate) fn run(arguments: &SessionsArguments) -> ExitCode {
    match arguments.which.ask(Request::Sessions) {
        Ok(Reply::Sessions(sessions)) if arguments.json => out::json(&sessions),
        Ok(Reply::Sessions(sessions)) if sessions.is_empty() => out::print_line("no sessions"),
        Ok(Reply::Sessions(sessions)) => out::print(&table(&sessions)),
        Ok(_) => AskError::Strange.report(),
        Err(error) => error.report(),
    }
}

fn table(sessions: &[SessionLine]) -> Page {
    let headers = ["SESSION", "AGENT", "PID", "CLIENT", "SERVER", "CALLS", "AGE", "HOLDS"];
    let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".into());
    let row = |line: &SessionLine| {
        [
            line.session.to_string(),
            text(&line.agent),
            line.pid.map_or("-".into(), |pid| pid.to_string()),
            text(&line.client),
            line.server.clone().unwrap_or_else(|| "all".into()),
            line.calls.to_string(),
            render::duration(line.age),
            if line.leases.is_empty() { "-".into() } else { line.leases.join(", ") },
        ]
    };
    let mut page = Page::new();
    page.table(headers, &sessions.iter().map(row).collect::<Vec<_>>());
    page
}
