//! `ostler events`: prints the gateway's event log.

use std::io;
use std::process::ExitCode;

use clap::Args;
use ostler_gateway::admin::{LoggedEvent, Request};
use ostler_gateway::front::{Hello, LineError};
use serde_json::Value;

use crate::gateways::{AskError, Which};
use crate::out::Screen;
use crate::{exit, render};

#[derive(Debug, Args)]
#[command(after_help = "\
The gateway keeps the last thousand events. Times are local; with --json they are UTC (RFC 3339). A server that failed is shown with its exit status, its command, what to do about it and the last lines of its stderr, with secrets masked.

Examples:
  ostler events
  ostler events -f
  ostler events -f --json | jq 'select(.event == \"backing_off\")'")]
pub(crate) struct EventsArguments {
    /// Print new events as they happen, until the gateway ends
    #[arg(short, long)]
    follow: bool,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    which: Which,
}

pub(crate) fn run(arguments: &EventsArguments) -> ExitCode {
    match tell(arguments) {
        Ok(written) => exit::written(written),
        Err(error) => error.report(),
    }
}

fn tell(arguments: &EventsArguments) -> Result<io::Result<()>, AskError> {
    let gateway = arguments.which.dial()?;
    let request = Hello::Admin(Request::Events { follow: arguments.follow });
    gateway.say(&request, &[]).map_err(AskError::Untold)?;
    let mut screen = Screen::new();
    loop {
        let event: LoggedEvent = match gateway.receive() {
            Ok(event) => event,
            Err(LineError::Closed) => return Ok(Ok(())),
            Err(error) => return Err(AskError::Gone(error)),
        };
        let written = if arguments.json {
            as_json(&event).and_then(|line| screen.json(&line))
        } else {
            lines(&event).iter().try_for_each(|line| screen.line(line))
        };
        match written {
            Ok(()) => {}
            // The reader closed the pipe.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(Ok(())),
            Err(error) => return Ok(Err(error)),
        }
    }
}

/// An event with its time as text.
fn as_json(event: &LoggedEvent) -> io::Result<Value> {
    let mut line = serde_json::to_value(event)?;
    line["at"] = render::rfc3339(event.at).into();
    Ok(line)
}

/// Lines of an event: what happened, then the last lines of stderr of a server that failed.
pub(crate) fn lines(event: &LoggedEvent) -> Vec<String> {
    let LoggedEvent { at, event, server, number, detail, failure } = event;
    let number = number.map_or(String::new(), |number| format!(" #{number}"));
    let server = server.as_deref().unwrap_or("-");
    let first = format!("{}  {event:<12}  {server}{number}  {detail}", render::clock(*at));
    let rest = failure.iter().flat_map(|failure| render::failure(failure).into_iter().skip(1));
    std::iter::once(first).chain(rest).collect()
}
