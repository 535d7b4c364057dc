//! `ostler run`: one server in a fence, in place of its own command.
//!
//! The client starts this process, which is the owner. The owner starts a guardian, and the guardian starts the server. The server
//! inherits the client's descriptors, so no traffic passes through here; with `--log` its stderr is a pipe to the guardian. `watch` waits for the end of stdin, the death of the
//! client, signals, and events of the guardian; it turns each into an order to the guardian. `ending` exits as the server did. As
//! process 1 of a container, `init` runs this command again as a child and reaps orphans.

mod ending;
mod init;
mod input;
mod watch;

use std::ffi::OsString;
use std::io;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use clap::{ArgAction, Args};
use ostler::logs::Logs;
use ostler::{
    Bytes, Containment, Cpus, Descriptors, Engine, GuardianProgram, Ignored, Limits, Owner, Places,
    Refusal, Resources, ServerSpec, ServerStdio, StartError, Terms, duration,
};

use crate::exit;
use crate::out::{chain, handed_over, say};
use crate::parents::Parents;
use crate::requests::Requests;
use input::Input;
use watch::{End, Wrapper};

/// Name of this owner in ledgers.
pub(crate) const OWNER: &str = "ostler run";

const NOTES: &str = "\
When the client closes stdin or dies, the server may exit by itself; SIGTERM follows after a third of the grace, SIGKILL after the grace. Signals to `ostler run` do the same, beginning with SIGTERM. Containers that the server created are removed.

Levels: tree (a guardian process), leaf (also a cgroup), strict (also a PID namespace: nothing is left even if ostler is killed too). By default the best of tree and leaf.

Engines: auto (both), docker, podman, off (for a server that manages your own containers). Below strict, containers that a server creates past its environment are not followed.

Logs: with --log the server's stderr goes to a log instead of the client, to its last line even if `ostler run` is killed. `ostler logs NAME` shows it, with secrets masked.

Exit status: that of the server. 127: command not found; 126: it cannot be executed.

Examples:
  ostler run -- npx -y @modelcontextprotocol/server-everything
  ostler run --grace 3s -- docker run -i --rm ghcr.io/github/github-mcp-server
  ostler run --memory 512m --pids 100 -- uvx some-server
  ostler run --engine off -- npx -y manages-my-own-containers
  ostler run --log --name search -- uvx some-server

In a client's configuration, put it in front of the server's command:
  \"command\": \"ostler\", \"args\": [\"run\", \"--\", \"npx\", \"-y\", \"some-server\"]";

#[derive(Debug, Args)]
#[command(after_help = NOTES)]
pub(crate) struct RunArguments {
    /// Wait this long before SIGKILL
    #[arg(long, value_name = "DURATION", default_value = "1.5s", value_parser = duration::parse)]
    grace: Duration,
    /// Name it in messages [default: its file name]
    #[arg(long)]
    name: Option<String>,
    /// Refuse to start below this level
    #[arg(long, value_name = "LEVEL", default_value = "auto")]
    containment: Containment,
    /// Limit memory: 512m, 2g
    #[arg(long, value_name = "SIZE", help_heading = "Limits")]
    memory: Option<Bytes>,
    /// Limit CPU time, in processors: 1.5
    #[arg(long, value_name = "NUMBER", help_heading = "Limits")]
    cpus: Option<Cpus>,
    /// Limit processes and threads
    #[arg(long, value_name = "NUMBER", help_heading = "Limits", value_parser = count::<NonZeroU64>)]
    pids: Option<NonZeroU64>,
    /// Limit containers; creating more fails
    #[arg(long, value_name = "NUMBER", help_heading = "Limits", value_parser = count::<NonZeroUsize>)]
    containers: Option<NonZeroUsize>,
    /// Remove containers of this engine
    #[arg(long, value_name = "ENGINE", default_value = "auto")]
    engine: Engine,
    /// Start it in this directory [default: this one]
    #[arg(long, value_name = "DIRECTORY")]
    cwd: Option<PathBuf>,
    /// Keep its stderr in a log; the client does not get it
    #[arg(long)]
    log: bool,
    /// Print what was started, and at which level
    #[arg(short, long, action = ArgAction::SetTrue)]
    verbose: bool,
    /// Command of the server, with its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "CMD"
    )]
    command: Vec<OsString>,
}

fn count<T: FromStr>(text: &str) -> Result<T, &'static str> {
    text.parse().map_err(|_| "write a whole number above 0")
}

#[derive(Debug, thiserror::Error)]
enum RunError {
    #[error("cannot prepare the start")]
    Prepare(#[from] io::Error),
    #[error("cannot keep a log")]
    Log(#[source] io::Error),
    #[error(transparent)]
    Start(#[from] StartError),
}

pub(crate) fn run(arguments: RunArguments) -> ExitCode {
    if init::is_needed() {
        return init::run();
    }
    let (verbose, is_logged) = (arguments.verbose, arguments.log);
    let (spec, terms) = plan(arguments);
    let name = spec.name.clone();
    match start(spec, terms, is_logged) {
        Ok(wrapper) => match wrapper.watch(verbose) {
            End::Status(status) => ending::like(status),
            End::Refused(refusal) => {
                say(about(&name, &refusal));
                code_of(&refusal).into()
            }
        },
        Err(error) => {
            say(format_args!("{name}: {}", chain(&error)));
            exit::FAILED.into()
        }
    }
}

fn plan(arguments: RunArguments) -> (ServerSpec, Terms) {
    let mut command = arguments.command.into_iter();
    let program = command.next().unwrap_or_default();
    let file_name = || Path::new(&program).file_name().unwrap_or(&program).to_string_lossy().into();
    let spec = ServerSpec {
        name: arguments.name.unwrap_or_else(file_name),
        args: command.collect(),
        env: std::env::vars_os().collect(),
        cwd: arguments.cwd,
        program,
    };
    let limits = Limits { grace: arguments.grace, ..Limits::default() };
    let terms = Terms {
        containment: arguments.containment,
        limits,
        descriptors: Descriptors::Inherited,
        guardian: GuardianProgram::Myself,
        resources: Resources {
            memory: arguments.memory,
            cpus: arguments.cpus,
            pids: arguments.pids,
            containers: arguments.containers,
        },
        engine: arguments.engine,
        log: None,
    };
    (spec, terms)
}

fn start(spec: ServerSpec, mut terms: Terms, is_logged: bool) -> Result<Wrapper, RunError> {
    let (name, places) = (spec.name.clone(), Places::of_user());
    if is_logged {
        terms.log = Some(Logs::create(&places).map_err(RunError::Log)?.path(&name));
    }
    let ignored = Ignored::now()?;
    let requests = Requests::listen(ignored)?;
    let parents = Parents::watch(ignored)?;
    let input = Input::watch()?;
    let (stdout, stderr) = handed_over()?;
    let stdio = ServerStdio { stdin: input.for_server()?, stdout, stderr };
    let owner = Owner::new(places, OWNER)?;
    let instance = owner.start(spec, stdio, &terms)?;
    input::let_go_of_stdout()?;
    Ok(Wrapper::new(name, instance, input, parents, requests, terms.limits.grace))
}

/// A refusal with the server's name in front, unless the refusal names the same program itself.
fn about(name: &str, refusal: &Refusal) -> String {
    match refusal {
        Refusal::NotFound { program } | Refusal::NotExecutable { program, .. }
            if Path::new(program).file_name().is_some_and(|file| file == name) =>
        {
            refusal.to_string()
        }
        _ => format!("{name}: {refusal}"),
    }
}

fn code_of(refusal: &Refusal) -> u8 {
    match refusal {
        Refusal::NotFound { .. } => exit::COMMAND_NOT_FOUND,
        Refusal::NotExecutable { .. } | Refusal::WorkingDirectory { .. } => exit::NOT_EXECUTABLE,
        _ => exit::FAILED,
    }
}
