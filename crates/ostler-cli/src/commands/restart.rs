//! `ostler restart`: stops all instances of a server.

use std::process::ExitCode;

use clap::Args;
use ostler_gateway::admin::{Reply, Request};

use crate::commands::down;
use crate::gateways::{AskError, Which};

#[derive(Debug, Args)]
#[command(after_help = "\
All instances of the server stop when their calls in flight are answered, and its backoff is reset. Nothing is started: the next call starts a new instance.

Exit status: 3 if there is no such server, 4 if something is left.

Examples:
  ostler restart github")]
pub(crate) struct RestartArguments {
    /// Name of the server
    server: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    which: Which,
}

pub(crate) fn run(arguments: &RestartArguments) -> ExitCode {
    match arguments.which.ask(Request::Restart(arguments.server.clone())) {
        Ok(Reply::Ended { count, left }) => {
            let done = match count {
                0 => format!("{}: not running; the next call starts it", arguments.server),
                _ => {
                    format!("{}: stopped {count}; the next call starts a new one", arguments.server)
                }
            };
            down::report(&done, count, &left, arguments.json)
        }
        Ok(_) => AskError::Strange.report(),
        Err(error) => error.report(),
    }
}
