//! `ostler down`: stops a gateway and waits until its process is gone.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use ostler_gateway::admin::{InstanceLine, Reply, Request};
use ostler_gateway::front::GatewayConnection;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use serde::Serialize;

use crate::gateways::{self, AskError, Which};
use crate::out::say;
use crate::page::Page;
use crate::{exit, out};

/// Wait for the process of a gateway that has stopped all its servers.
const END_LIMIT: Duration = Duration::from_secs(15);

#[derive(Debug, Args)]
#[command(after_help = "\
The gateway stops accepting clients, waits for calls in flight, stops all servers and exits; its clients are disconnected. When the command returns, another gateway can start at the same socket. --all stops every gateway of this user, except those that were started with --socket.

Exit status: 3 if no gateway runs, 4 if something is left, which is named.

Examples:
  ostler down
  ostler down --all
  ostler down --socket /run/user/1000/team.sock")]
pub(crate) struct DownArguments {
    /// Stop all gateways of this user
    #[arg(long, conflicts_with = "socket")]
    all: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    which: Which,
}

/// Output of `--json`.
#[derive(Debug, Serialize)]
struct Verdict<'l> {
    ended: usize,
    left: &'l [InstanceLine],
}

/// Output of `--all --json`, one per gateway.
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
    match arguments.which.dial().and_then(|gateway| end(&gateway)) {
        Ok(Ended { count, left }) => {
            let done = format!("the gateway has ended; instances stopped: {count}");
            report(&done, count, &left, arguments.json)
        }
        Err(error) => error.report(),
    }
}

struct Ended {
    count: usize,
    left: Vec<InstanceLine>,
}

/// Stops a gateway and waits until its process is gone, so that its lock and port are free.
fn end(gateway: &GatewayConnection) -> Result<Ended, AskError> {
    let process = gateway.process();
    let Reply::Ended { count, left } = gateways::ask(gateway, Request::Down)? else {
        return Err(AskError::Strange);
    };
    if process.is_none_or(|process| is_gone(&process)) {
        Ok(Ended { count, left })
    } else {
        Err(AskError::StillThere { pid: gateway.greeting.pid, limit: END_LIMIT })
    }
}

/// Waits for a process to exit. Returns false after [`END_LIMIT`].
fn is_gone(process: &OwnedFd) -> bool {
    let end = Instant::now() + END_LIMIT;
    loop {
        let rest = Timespec::try_from(end.saturating_duration_since(Instant::now())).ok();
        match poll(&mut [PollFd::new(process, PollFlags::IN)], rest.as_ref()) {
            Err(Errno::INTR) => {}
            polled => return polled.is_ok_and(|count| count > 0),
        }
    }
}

fn end_all(as_json: bool) -> Result<ExitCode, AskError> {
    let running = gateways::running();
    if running.is_empty() {
        return Err(AskError::None);
    }
    let mut verdicts = Vec::new();
    for (socket, gateway) in running {
        let Ended { count, left } = end(&gateway)?;
        let ended = count - left.len().min(count);
        verdicts.push(VerdictAt { socket: socket.path().to_owned(), ended, left });
    }
    let mut page = Page::new();
    for VerdictAt { socket, ended, .. } in &verdicts {
        let socket = socket.display();
        page.line(format_args!("{socket}: ended; instances stopped: {ended}"));
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
    say(format_args!("{}: not all of it is gone ({id}); its guardian continues", line.server));
}

/// Prints what was stopped, and names what is left.
pub(crate) fn report(done: &str, count: usize, left: &[InstanceLine], as_json: bool) -> ExitCode {
    let written = if as_json {
        out::json(&Verdict { ended: count - left.len().min(count), left })
    } else {
        out::print_line(done)
    };
    left.iter().for_each(tell_left);
    if left.is_empty() { written } else { exit::LEFT_OVER.into() }
}
