//! `ostler down`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use ostler_gateway::admin::{Answer, InstanceLine, Request};
use serde::Serialize;

use crate::gateways::{self, AskError, Which};
use crate::out::say;
use crate::page::Page;
use crate::{exit, out};

/// What `ostler down` is told.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ostler down
  ostler down --socket /run/user/1000/team.sock
  ostler down --all

The gateway answers the calls in flight, ends all its servers with proof, and then itself. Its
clients are disconnected. --all ends every gateway of this user that is not at a place of its own
(--socket). Exit status: 3 if no gateway runs, 4 if something is left, which is named.")]
pub(crate) struct DownArguments {
    /// End all gateways
    #[arg(long, conflicts_with = "socket")]
    all: bool,
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

/// The same of one gateway of several.
#[derive(Debug, Serialize)]
struct VerdictAt {
    socket: PathBuf,
    ended: usize,
    left: Vec<InstanceLine>,
}

pub(crate) fn run(arguments: &DownArguments) -> ExitCode {
    if arguments.all {
        return end_all(arguments.json).unwrap_or_else(|error| error.report());
    }
    match arguments.which.ask(Request::Down) {
        Ok(Answer::Ended { count, left }) => {
            let done = format!("the gateway has ended; instances that ended with it: {count}");
            report(&done, count, &left, arguments.json)
        }
        Ok(_) => AskError::Strange.report(),
        Err(error) => error.report(),
    }
}

fn end_all(as_json: bool) -> Result<ExitCode, AskError> {
    let running = gateways::running();
    if running.is_empty() {
        return Err(AskError::None);
    }
    let mut verdicts = Vec::new();
    for (place, gateway) in running {
        match gateways::ask(&gateway, Request::Down)? {
            Answer::Ended { count, left } => {
                let ended = count - left.len().min(count);
                verdicts.push(VerdictAt { socket: place.path().to_owned(), ended, left });
            }
            _ => return Err(AskError::Strange),
        }
    }
    let mut page = Page::new();
    for VerdictAt { socket, ended, .. } in &verdicts {
        let socket = socket.display();
        page.line(format_args!("{socket}: ended; instances that ended with it: {ended}"));
    }
    let written = if as_json { out::json(&verdicts) } else { out::print(&page) };
    let left: Vec<&InstanceLine> = verdicts.iter().flat_map(|one| &one.left).collect();
    for line in &left {
        tell_left(line);
    }
    Ok(if left.is_empty() { written } else { exit::LEFT_OVER.into() })
}

fn tell_left(line: &InstanceLine) {
    let id = line.instance.map_or("not started".into(), |id| id.to_string());
    say(format_args!("{}: something of it is left ({id}); its guardian goes on", line.server));
}

/// Says what was ended, and names what is left.
pub(crate) fn report(done: &str, count: usize, left: &[InstanceLine], as_json: bool) -> ExitCode {
    let written = if as_json {
        out::json(&Verdict { ended: count - left.len().min(count), left })
    } else {
        out::print_line(done)
    };
    left.iter().for_each(tell_left);
    if left.is_empty() { written } else { exit::LEFT_OVER.into() }
}
