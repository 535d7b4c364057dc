//! `ostler warm`: fills the catalog by listing every server once, through sessions of its own with the gateway.

mod session;

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use ostler_gateway::admin::{Reply, Request, ServerLine};
use ostler_gateway::front::{GatewayConnection, GatewaySocket};
use serde::Serialize;

use self::session::Offered;
use crate::commands::connect::{ReachError, reach};
use crate::exit;
use crate::gateways::{AskError, Which, ask};
use crate::mcp::ClientError;
use crate::out::{Screen, chain, say};

#[derive(Debug, Args)]
#[command(after_help = "\
The first start of a server may take long, because `npx` or `uvx` downloads it. This command starts each server once, lists its tools, prompts and resources, and stops it. The gateway keeps the lists, so clients see all tools at once and nothing is started for them. Starts the gateway if none runs.

Exit status: 1 if a server was not listed, 3 if there is no such server.

Examples:
  ostler warm
  ostler warm github search
  ostler warm --json")]
pub(crate) struct WarmArguments {
    /// Names of servers [default: all]
    servers: Vec<String>,
    #[arg(help = "Start the gateway with this file [env: OSTLER_CONFIG]")]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    which: Which,
}

#[derive(Debug, thiserror::Error)]
enum WarmError {
    #[error(transparent)]
    Reach(#[from] ReachError),
    #[error(transparent)]
    Ask(#[from] AskError),
    #[error("there is no server '{0}'; `ostler status` lists them")]
    NoServer(String),
    #[error("cannot start a thread")]
    Thread(#[from] io::Error),
}

/// Result of one server, also the output of `--json`.
#[derive(Debug, Serialize)]
struct Row {
    server: String,
    seconds: f64,
    #[serde(flatten)]
    offered: Option<Offered>,
    error: Option<String>,
}

pub(crate) fn run(arguments: &WarmArguments) -> ExitCode {
    match warm(arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => exit::FAILED.into(),
        Err(error) => {
            say(chain(&error));
            let code = match error {
                WarmError::NoServer(_) => exit::NOT_FOUND,
                _ => exit::FAILED,
            };
            code.into()
        }
    }
}

/// Lists the servers. Returns whether all succeeded.
fn warm(arguments: &WarmArguments) -> Result<bool, WarmError> {
    let gateway = reach(&arguments.which, arguments.config.as_deref())?;
    let servers = servers(&gateway, &arguments.servers)?;
    if servers.is_empty() {
        say("the configuration has no enabled server");
    }
    let rows = list_all(gateway.socket(), &servers)?;
    let mut screen = Screen::new();
    let mut is_complete = true;
    for row in rows {
        is_complete &= row.error.is_none();
        // A closed stdout does not stop the listing.
        if arguments.json {
            let _ = screen.json(&row);
        } else {
            row.describe().lines().for_each(|line| drop(screen.line(line)));
        }
    }
    Ok(is_complete)
}

/// Names of the requested servers, or of all enabled ones.
fn servers(gateway: &GatewayConnection, asked_for: &[String]) -> Result<Vec<String>, WarmError> {
    let Reply::Overview(overview) = ask(gateway, Request::Overview)? else {
        return Err(AskError::Strange.into());
    };
    if let Some(unknown) =
        asked_for.iter().find(|name| overview.servers.iter().all(|line| line.name != **name))
    {
        return Err(WarmError::NoServer(unknown.clone()));
    }
    let is_wanted = |line: &ServerLine| {
        if asked_for.is_empty() { line.disabled.is_none() } else { asked_for.contains(&line.name) }
    };
    Ok(overview.servers.into_iter().filter(is_wanted).map(|line| line.name).collect())
}

/// Lists all servers concurrently, a thread each; the gateway limits how many start at once. Rows arrive as they finish.
fn list_all(socket: &GatewaySocket, servers: &[String]) -> io::Result<mpsc::Receiver<Row>> {
    let (sender, rows) = mpsc::channel();
    for server in servers {
        let (socket, server, sender) = (socket.clone(), server.clone(), sender.clone());
        // A thread ends with its answer, or with the gateway.
        thread::Builder::new().name("ostler-warm".into()).spawn(move || {
            let since = Instant::now();
            let offered = session::list(&socket, &server);
            // The receiver lives until the last row.
            let _ = sender.send(Row::new(server, since.elapsed(), offered));
        })?;
    }
    Ok(rows)
}

impl Row {
    fn new(server: String, took: Duration, offered: Result<Offered, ClientError>) -> Self {
        let seconds = (took.as_secs_f64() * 10.0).round() / 10.0;
        match offered {
            Ok(offered) => Self { server, seconds, offered: Some(offered), error: None },
            Err(error) => {
                // The gateway's message names the server already.
                let text = chain(&error);
                let name = format!("{server}: ");
                let error = Some(text.strip_prefix(&name).unwrap_or(&text).to_owned());
                Self { server, seconds, offered: None, error }
            }
        }
    }

    fn describe(&self) -> String {
        let Self { server, seconds, .. } = self;
        match (&self.offered, &self.error) {
            (Some(Offered { tools, prompts, resources }), _) => format!(
                "{server}: {tools} tools, {prompts} prompts, {resources} resources ({seconds} s)"
            ),
            (None, error) => {
                let error = error.as_deref().unwrap_or_default();
                format!("{server}: not listed ({seconds} s): {error}")
            }
        }
    }
}
