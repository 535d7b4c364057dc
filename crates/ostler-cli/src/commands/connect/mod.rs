//! `ostler connect`: connects a client on stdio to the gateway.
//!
//! `start` finds or starts the gateway. Then stdin and stdout are passed to the gateway as descriptors, and no traffic passes
//! through this process: `hold` only waits, so that each side sees the end of the other. Descriptors that cannot be passed (a
//! terminal, a file, another namespace) are copied by `bridge` instead.

pub(crate) mod agent;
mod bridge;
mod hold;
pub(crate) mod start;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use ostler::Ignored;
use ostler_gateway::config::{Asker, NotFound};
use ostler_gateway::front::{
    Admission, ClientHello, GatewayConnection, Hello, LineError, SocketError, is_usable,
};

use crate::exit;
use crate::gateways::{Which, client_hello, configuration, configuration_to_follow};
use crate::out::{chain, protocol, say};
use crate::parents::Parents;

#[derive(Debug, Args)]
#[command(after_help = "\
Connects stdin and stdout to the gateway. A gateway that it starts exits after five minutes without clients and servers, and never reads ./ostler.json: use --config. Without a configuration it uses the one that was served last, and says so.

Sessions of one agent share servers with `\"share\": \"agent\"`. --agent or OSTLER_AGENT names the agent; without a name, sessions in one project directory are one agent, where the client tells its directory.

Exit status: 0 when stdin ends or the client dies, 1 if the gateway cannot be reached or ends.

Examples:
  ostler connect               all servers, their tools as server__tool
  ostler connect github        one server, with its own tool names
  ostler connect --config ~/team.json

In a client's configuration:
  \"command\": \"ostler\", \"args\": [\"connect\"]")]
pub(crate) struct ConnectArguments {
    /// Name of the server [default: all servers]
    server: Option<String>,
    #[arg(help = "Name the agent of this session [env: OSTLER_AGENT]")]
    #[arg(long, value_name = "ID")]
    agent: Option<String>,
    #[arg(help = "Start the gateway with this file [env: OSTLER_CONFIG]")]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    which: Which,
}

/// Why a client has no gateway.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReachError {
    #[error(transparent)]
    NotFound(#[from] NotFound),
    #[error(transparent)]
    GatewaySocket(#[from] SocketError),
    #[error(transparent)]
    Start(#[from] start::StartError),
}

#[derive(Debug, thiserror::Error)]
enum ConnectError {
    #[error(transparent)]
    Reach(#[from] ReachError),
    #[error("no answer from the gateway")]
    Gone(#[from] LineError),
    #[error("cannot send to the gateway")]
    Untold(#[source] io::Error),
    #[error("{0}")]
    Refused(String),
    #[error("the connection failed")]
    Failed(#[from] io::Error),
}

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The client closed stdin, or died.
    Input,
    /// The gateway exited, or is shutting down.
    Gateway,
}

pub(crate) fn run(arguments: &ConnectArguments) -> ExitCode {
    match connect(arguments) {
        Ok(End::Input) => ExitCode::SUCCESS,
        Ok(End::Gateway) => {
            say("the gateway has ended");
            exit::FAILED.into()
        }
        Err(error) => {
            say(chain(&error));
            exit::FAILED.into()
        }
    }
}

fn connect(arguments: &ConnectArguments) -> Result<End, ConnectError> {
    let parents = Parents::watch(Ignored::now()?)?;
    let gateway = reach(&arguments.which, arguments.config.as_deref())?;
    let hello = hello(arguments, &gateway)?;
    let (stdin, stdout) = (io::stdin(), protocol());
    let both = [stdin.as_fd(), stdout.as_fd()];
    let usable = both.iter().all(is_usable);
    let descriptors: &[BorrowedFd<'_>] = if usable { &both } else { &[] };
    gateway.say(&Hello::Client(hello), descriptors).map_err(ConnectError::Untold)?;
    match gateway.receive()? {
        Admission::Direct => Ok(hold::hold(&gateway, &parents)?),
        Admission::Bridge => Ok(bridge::copy(&gateway.into_stream(), parents)?),
        Admission::Refused(reason) => Err(ConnectError::Refused(reason)),
    }
}

fn hello(arguments: &ConnectArguments, gateway: &GatewayConnection) -> io::Result<ClientHello> {
    let agent = agent::named_or_own(arguments.agent.as_ref())?;
    client_hello(gateway, arguments.server.clone(), agent)
}

/// Finds the gateway of a client, and starts one if none runs.
pub(crate) fn reach(which: &Which, given: Option<&Path>) -> Result<GatewayConnection, ReachError> {
    let path = match which.said()? {
        // A running gateway has its own configuration.
        Some(_) => configuration(given, Asker::Client)?,
        None => configuration_to_follow(given)?,
    };
    let socket = which.socket(path.as_deref())?;
    Ok(start::reach(&socket, path.as_deref())?)
}
