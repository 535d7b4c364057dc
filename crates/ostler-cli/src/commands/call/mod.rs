//! `ostler call`: calls one tool of a server through the gateway, and shows the result.
//!
//! The catalog of the gateway has the tool's schema, which decides how `key=value` is read. A server that was never listed is
//! listed first. A signal or `--timeout` cancels the call.

mod arguments;
mod content;
mod save;
mod watch;

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use ostler::{Ignored, duration};
use ostler_gateway::admin::{Offer, Offering, Reply, Request};
use ostler_gateway::front::{DialError, GatewayConnection, GatewaySocket};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use self::arguments::{ArgumentsError, Given};
use self::content::Content;
use self::save::{SaveError, Saver};
use self::watch::Watch;
use crate::commands::connect::{ReachError, agent, reach};
use crate::gateways::{AskError, Which, ask, no_such};
use crate::mcp::{Client, ClientError, News, PROGRESS_TOKEN, Patience};
use crate::offers::{OffersError, Tool, find_tool, of_gateway};
use crate::out::{chain, say};
use crate::requests::Requests;
use crate::{exit, out};

#[derive(Debug, Args)]
#[command(after_help = "\
A value is read as JSON if it is valid JSON and the schema of the tool does not say string; `ostler tools SERVER TOOL` shows the schema. Other clients of the same agent share the server with this call; without an agent it ends with the call, unless its configuration says `\"share\": \"all\"`. Starts the gateway if none runs. Progress is shown on a terminal. ^C cancels the call.

Exit status: 0 done, 1 the tool reported an error or the call failed, 2 wrong usage, 3 no such server or tool, 130 cancelled by ^C.

Examples:
  ostler call github create_issue owner=me repo=app title='It fails'
  ostler call weather forecast '{\"city\": \"Oslo\", \"days\": 3}'
  jq -n '{path: \"a.txt\"}' | ostler call files read -
  ostler call browser screenshot --save pictures
  ostler call github get_me --json | jq -r '.content[].text'")]
pub(crate) struct CallArguments {
    /// Name of the server
    server: String,
    /// Name of the tool
    tool: String,
    /// Arguments: key=value pairs, one JSON object, or - to read it from stdin
    #[arg(value_name = "ARGUMENT")]
    arguments: Vec<String>,
    /// Cancel the call after this long [default: the server's callTimeout]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    timeout: Option<Duration>,
    /// Write images, audio and other files of the result into this directory
    #[arg(long, value_name = "DIR")]
    save: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long, conflicts_with = "save")]
    json: bool,
    #[arg(help = "Agent that the call belongs to [env: OSTLER_AGENT]")]
    #[arg(long, value_name = "ID")]
    agent: Option<String>,
    #[arg(help = "Start the gateway with this file [env: OSTLER_CONFIG]")]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    which: Which,
}

#[derive(Debug, thiserror::Error)]
enum CallError {
    #[error(transparent)]
    Usage(#[from] ArgumentsError),
    #[error(transparent)]
    Reach(#[from] ReachError),
    #[error(transparent)]
    Ask(#[from] AskError),
    #[error(transparent)]
    Offers(#[from] OffersError),
    #[error("{0}")]
    NotFound(String),
    #[error("{server}: unavailable: {reason}")]
    Unavailable { server: String, reason: String },
    #[error("{0}: the configuration disables it")]
    Disabled(String),
    #[error("cannot prepare the call")]
    Prepare(#[source] io::Error),
    #[error(transparent)]
    Client(ClientError),
    #[error("{reason}")]
    Refused {
        reason: String,
        /// What may be wrong with the arguments.
        doubts: Vec<String>,
    },
    #[error("no result after {0:?}; the call is cancelled")]
    TimedOut(Duration),
    #[error("cancelled")]
    Interrupted(i32),
    #[error(transparent)]
    Save(#[from] SaveError),
}

/// Parameters of `tools/call`.
#[derive(Serialize)]
struct Params<'a> {
    name: &'a str,
    arguments: &'a RawValue,
    #[serde(rename = "_meta")]
    meta: Value,
}

pub(crate) fn run(arguments: &CallArguments) -> ExitCode {
    call(arguments).unwrap_or_else(|error| {
        say(chain(&error));
        match error {
            CallError::Refused { doubts, .. } => {
                doubts.iter().for_each(say);
                exit::FAILED
            }
            CallError::Usage(_) => exit::USAGE,
            CallError::NotFound(_) => exit::NOT_FOUND,
            CallError::Interrupted(signal) => exit::by_signal(signal),
            _ => exit::FAILED,
        }
        .into()
    })
}

fn call(arguments: &CallArguments) -> Result<ExitCode, CallError> {
    let given = Given::read(&arguments.arguments)?;
    let gateway = gateway_of(arguments)?;
    let offering = offering(&gateway, &arguments.server)?;
    let mut watch = Watch::new(&arguments.server, &arguments.tool);
    let mut client = open(gateway.socket(), arguments, &mut watch)?;
    let called = tool(&mut client, offering, arguments, &mut watch)
        .and_then(|tool| Ok((make(&mut client, &tool, &given, &mut watch)?, tool)));
    drop(watch);
    match called {
        Ok((result, _)) if arguments.json => Ok(print_json(&result)),
        Ok((result, tool)) => print(&result, &tool, &given, arguments),
        Err(CallError::Client(error)) => Err(given_up(client, error, arguments)),
        Err(error) => Err(error),
    }
}

/// The gateway that the user named, the only one that runs, or else the one that `ostler connect` would use or start.
fn gateway_of(arguments: &CallArguments) -> Result<GatewayConnection, CallError> {
    let config = arguments.config.as_deref();
    if config.is_none() {
        match arguments.which.dial() {
            Err(AskError::None | AskError::NoneAt(_) | AskError::Several(_)) => {}
            dialled => return Ok(dialled?),
        }
    }
    Ok(reach(&arguments.which, config)?)
}

/// What the catalog knows of the server.
fn offering(gateway: &GatewayConnection, server: &str) -> Result<Offering, CallError> {
    let offer: Option<Offer> = of_gateway(gateway, Some(server))?.pop();
    match offer.map(|offer| offer.offering) {
        Some(Offering::Unavailable(reason)) => {
            Err(CallError::Unavailable { server: server.to_owned(), reason })
        }
        Some(Offering::Disabled) => Err(CallError::Disabled(server.to_owned())),
        Some(offering) => Ok(offering),
        None => Err(unknown_server(gateway.socket(), server)?),
    }
}

fn unknown_server(socket: &GatewaySocket, server: &str) -> Result<CallError, CallError> {
    let dial = |source: DialError| AskError::Dial { path: socket.path().to_owned(), source };
    let gateway = GatewayConnection::to(socket).map_err(dial)?;
    let Reply::Overview(overview) = ask(&gateway, Request::Overview)? else {
        return Err(AskError::Strange.into());
    };
    let known: Vec<&str> = overview.servers.iter().map(|line| line.name.as_str()).collect();
    Ok(CallError::NotFound(no_such("server", server, &known, "ostler status")))
}

fn open(
    socket: &GatewaySocket,
    arguments: &CallArguments,
    watch: &mut Watch,
) -> Result<Client, CallError> {
    let deadline = arguments.timeout.map(|limit| Instant::now() + limit);
    let signals = Ignored::now().and_then(Requests::listen).map_err(CallError::Prepare)?;
    let agent = agent::named_or_own(arguments.agent.as_ref()).map_err(CallError::Prepare)?;
    let patience = Patience { deadline, signals: Some(signals) };
    let hear = &mut |news: News<'_>| watch.hear(&news);
    Client::open(socket, &arguments.server, agent, "ostler-call", patience, hear)
        .map_err(|error| ended(error, arguments))
}

/// The tool, from the catalog; a server that was never listed is asked.
fn tool(
    client: &mut Client,
    offering: Offering,
    CallArguments { server, tool, .. }: &CallArguments,
    watch: &mut Watch,
) -> Result<Tool, CallError> {
    let hear = &mut |news: News<'_>| watch.hear(&news);
    let listed = match offering {
        Offering::Listed(listed) => listed.tools,
        _ if client.has("tools") => client.list("tools", hear).map_err(CallError::Client)?,
        _ => Vec::new(),
    };
    let found = find_tool(&listed, server, tool).map_err(CallError::NotFound)?;
    Ok(found.1)
}

/// Sends the call and waits for its result.
fn make(
    client: &mut Client,
    tool: &Tool,
    given: &Given,
    watch: &mut Watch,
) -> Result<Box<RawValue>, CallError> {
    let arguments = given.to_json(tool).map_err(|error| CallError::Client(error.into()))?;
    let meta = json!({ "progressToken": PROGRESS_TOKEN });
    let params = Params { name: &tool.name, arguments: &arguments, meta };
    let result = client.call("tools/call", &params, &mut |news| watch.hear(&news));
    result.map_err(|error| match error {
        ClientError::Refused(reason) => CallError::Refused { reason, doubts: given.doubts(tool) },
        error => CallError::Client(error),
    })
}

/// Ends a session whose request has no response, or was refused.
fn given_up(client: Client, error: ClientError, arguments: &CallArguments) -> CallError {
    if matches!(error, ClientError::TimedOut | ClientError::Interrupted(_)) {
        client.cancel("cancelled by the user");
    }
    ended(error, arguments)
}

fn ended(error: ClientError, arguments: &CallArguments) -> CallError {
    match error {
        ClientError::Interrupted(signal) => CallError::Interrupted(signal),
        ClientError::TimedOut => CallError::TimedOut(arguments.timeout.unwrap_or_default()),
        error => CallError::Client(error),
    }
}

fn print_json(result: &RawValue) -> ExitCode {
    let written = out::json(&result);
    if Content::parse(result).is_error { exit::FAILED.into() } else { written }
}

fn print(
    result: &RawValue,
    tool: &Tool,
    given: &Given,
    arguments: &CallArguments,
) -> Result<ExitCode, CallError> {
    let content = Content::parse(result);
    let directory = arguments.save.as_deref().filter(|_| content.has_attachment());
    let saver = directory.map(|directory| Saver::new(directory, &tool.name)).transpose()?;
    let written = out::print(&content.page(saver)?);
    if !content.is_error {
        return Ok(written);
    }
    say(format_args!("{}: the tool reported an error", tool.name));
    given.doubts(tool).iter().for_each(say);
    Ok(exit::FAILED.into())
}
