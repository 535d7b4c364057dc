//! `ostler serve`: the gateway, in the foreground.
//!
//! Clients that find no gateway start it with `--detach=first`. That process leaves the client's session and starts the second step,
//! which is the gateway: not a child of the client, and not in its process group. `life` runs the gateway, `watch` reloads its
//! configuration, `http` sets up the listener and the token, `activation` talks to a service manager that started the gateway.

mod activation;
mod example;
mod http;
pub(crate) mod life;
mod memory;
mod watch;

use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use clap::Args;
use ostler::{Ignored, InstanceId, instances_around};
use ostler_gateway::ServerSource;
use ostler_gateway::config::{self, Asker, LoadError, NotFound};
use ostler_gateway::front::{BoundSocket, GatewaySocket, SocketError, leave_configuration};
use rustix::process::setsid;

use self::http::{HttpArguments, HttpError};
pub(crate) use self::http::{USUAL as USUAL_ADDRESS, parse_address};
use crate::exit;
use crate::gateways::{Which, configuration, configuration_or_example};
use crate::out::{chain, say};
use crate::requests::Requests;

/// Wait for a predecessor that is shutting down.
const PREDECESSOR_LIMIT: Duration = Duration::from_secs(15);
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// More worker threads only contend with each other.
const MOST_THREADS: usize = 4;

#[derive(Debug, Args)]
#[command(after_help = "\
Clients use `ostler connect`, or HTTP with --listen: all servers at /mcp, one at /mcp/NAME, HTTP+SSE at /sse, with the bearer token that the first start creates. Port 0 picks a free port and prints it. Servers start on first use. Without a configuration the gateway offers a small example server.

On SIGTERM or SIGINT it stops accepting clients, waits for calls in flight (at most the drain timeout of each server), stops all servers and exits. A second signal skips the wait.

The configuration is the first of: --config, OSTLER_CONFIG, ./ostler.json, and ostler/ostler.json in the XDG config home (~/.config).

Exit status: 4 if something is left, which is named.

Examples:
  ostler serve
  ostler serve --config team.json --socket /run/user/1000/team.sock
  ostler serve --listen
  ostler serve --listen 0.0.0.0:8639 --beyond-loopback \\
    --host-name tools.example --tls-cert cert.pem --tls-key key.pem")]
pub(crate) struct ServeArguments {
    #[arg(help = "Read this configuration [env: OSTLER_CONFIG]")]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    http: HttpArguments,
    /// Exit after this long without clients and servers
    #[arg(long, value_name = "DURATION", value_parser = ostler::duration::parse)]
    idle_exit: Option<Duration>,
    /// Run in the background, for clients that find no gateway
    #[arg(long, hide = true, value_enum)]
    detach: Option<Detach>,
    /// Serve only clients inside this instance
    #[arg(long, hide = true, value_name = "ID", requires = "socket")]
    only_for: Option<InstanceId>,
    /// Ignore any configuration
    #[arg(long, hide = true, conflicts_with = "config")]
    no_config: bool,
}

/// Steps into the background.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Detach {
    /// Leave the client's session and start the second step.
    First,
    /// Be the gateway, outside of the client's process tree and group.
    Second,
}

#[derive(Debug, thiserror::Error)]
enum ServeError {
    #[error(transparent)]
    NotFound(#[from] NotFound),
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    GatewaySocket(#[from] SocketError),
    #[error(transparent)]
    Http(#[from] HttpError),
    #[error("cannot prepare to serve")]
    Prepare(#[from] io::Error),
}

pub(crate) fn run(arguments: &ServeArguments) -> ExitCode {
    let served = match arguments.detach {
        Some(Detach::First) => step_aside().map_err(ServeError::Prepare),
        Some(Detach::Second) => {
            // Started through /proc/self/exe, so its name would be `exe`.
            let _ = rustix::thread::set_name(c"ostler");
            serve(arguments)
        }
        None => serve(arguments),
    };
    served.unwrap_or_else(|error| {
        say(chain(&error));
        exit::FAILED.into()
    })
}

/// Starts the second step outside of the client's session and exits, so that a client that kills its process tree or
/// group does not hit the gateway.
fn step_aside() -> io::Result<ExitCode> {
    // Fails if this process leads a group already; then it is outside of the client's group.
    let _ = setsid();
    let arguments = std::env::args_os().skip(1).map(|argument| {
        if argument == "--detach=first" { "--detach=second".into() } else { argument }
    });
    Command::new("/proc/self/exe").arg0("ostler").args(arguments).spawn()?;
    Ok(ExitCode::SUCCESS)
}

fn serve(arguments: &ServeArguments) -> Result<ExitCode, ServeError> {
    memory::return_large_blocks();
    let requests = Requests::listen(Ignored::now()?)?;
    let path = if arguments.no_config {
        None
    } else {
        configuration_or_example(arguments.config.as_deref())?
    };
    let source = source(path.as_deref())?;
    let bound = match activation::inherited()? {
        Some(listener) => GatewaySocket::adopt(listener)?,
        None => bind(arguments, path.as_deref())?,
    };
    if let Some(path) = &path {
        leave_path(arguments, bound.socket(), path);
    }
    let http = arguments.http.listen()?;
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()?;
    let plan = life::Plan {
        source,
        configuration: path,
        http,
        idle_exit: arguments.idle_exit,
        is_detached: arguments.detach.is_some(),
    };
    let left = runtime.block_on(life::live(plan, bound, requests))?;
    // Tasks that still run have passed their deadlines.
    runtime.shutdown_background();
    Ok(if left == 0 { ExitCode::SUCCESS } else { exit::LEFT_OVER.into() })
}

fn source(path: Option<&Path>) -> Result<ServerSource, ServeError> {
    let Some(path) = path else { return Ok(ServerSource::Fixed(example::offers()?)) };
    let file = config::load(path)?;
    let name = path.display().to_string();
    for notice in &file.notices {
        say(notice.in_file(&name));
    }
    Ok(ServerSource::File(file))
}

/// Records the configuration's path for clients that find none, unless this gateway has a socket of its own. A configuration found
/// in the working directory is not recorded: clients must not run what a cloned repository brings along.
fn leave_path(arguments: &ServeArguments, socket: &GatewaySocket, path: &Path) {
    let is_found_by_clients =
        || configuration(None, Asker::Client).is_ok_and(|found| found.as_deref() == Some(path));
    let is_left = arguments.config.is_some() || is_found_by_clients();
    if !is_left || !socket.is_usual_for(path) {
        return;
    }
    if let Err(error) = leave_configuration(socket, path) {
        say(format_args!(
            "warning: clients without a configuration will not find this gateway: {}",
            chain(&error)
        ));
    }
}

/// The socket: the one that the user named, or the default. Inside an instance the default gateway serves that instance alone.
fn socket(arguments: &ServeArguments, path: Option<&Path>) -> Result<GatewaySocket, SocketError> {
    if let Some(socket) = arguments.which.said()? {
        return Ok(socket.only_for(arguments.only_for));
    }
    let shared = GatewaySocket::usual(path)?;
    let around = instances_around(std::process::id().cast_signed());
    around.first().map_or(Ok(shared.clone()), |innermost| shared.inside(*innermost))
}

fn bind(arguments: &ServeArguments, path: Option<&Path>) -> Result<BoundSocket, ServeError> {
    let socket = socket(arguments, path)?;
    let begin = Instant::now();
    loop {
        match socket.take() {
            // A background gateway can wait for its predecessor to exit.
            Err(SocketError::Taken(_))
                if arguments.detach.is_some() && begin.elapsed() < PREDECESSOR_LIMIT =>
            {
                std::thread::sleep(LOOK_EVERY);
            }
            taken => return Ok(taken?),
        }
    }
}
