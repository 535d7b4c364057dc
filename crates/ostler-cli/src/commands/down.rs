//! `ostler down`.

use std::process::ExitCode;

use clap::Args;
use ostler_gateway::admin::{Answer, InstanceLine, Request};
use serde::Serialize;

use crate::gateways::{AskError, Which};
use crate::out::say;
use crate::{exit, out};

/// What `ostler down` is told.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ostler down
  ostler down --socket /run/user/1000/team.sock

The gateway answers the calls in flight, ends all its servers with proof, and then itself. Its
clients are disconnected. Exit status: 3 if no gateway runs, 4 if something is left, which is named.")]
pub(crate) struct DownArguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    which: Which,
}

/// How it ended, for programs.
#[derive(Debug, Serialize)]
struct Verdict<'l> {
    ended: usize,
    left: &'l [InstanceLine],
}

pub(crate) fn run(arguments: &DownArguments) -> ExitCode {
    match arguments.which.ask(Request::Down) {
        Ok(Answer::Ended { count, left }) => {
            let done = format!("the gateway has ended; instances that ended with it: {count}");
            report(&done, count, &left, arguments.json)
        }
        Ok(_) => AskError::Strange.report(),
        Err(error) => error.report(),
    }
}

/// Says what was ended, and names what is left.
pub(crate) fn report(done: &str, count: usize, left: &[InstanceLine], as_json: bool) -> ExitCode {
    let written = if as_json {
        out::json(&Verdict { ended: count - left.len().min(count), left })
    } else {
        out::print_line(done)
    };
    for line in left {
        let id = line.instance.map_or("not started".into(), |id| id.to_string());
        say(format_args!("{}: something of it is left ({id}); its guardian goes on", line.server));
    }
    if left.is_empty() { written } else { exit::LEFT_OVER.into() }
}
