//! Finding the gateway that a command addresses, and asking it.
//!
//! `--socket` or `OSTLER_SOCKET` names a gateway. Otherwise a command addresses the only running gateway, or all of them if it
//! lists something. The configuration search for `serve`, `connect` and `warm` is here as well, because the path of the
//! configuration determines the default socket.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use ostler::instances_around;
use ostler_gateway::Agent;
use ostler_gateway::admin::{Overview, Reply, Request};
use ostler_gateway::config::{Asker, Environment, Names, NotFound, Search, nearest};
use ostler_gateway::front::{
    ClientHello, DialError, GatewayConnection, GatewaySocket, Hello, LineError, SocketError,
    last_configuration,
};

use crate::exit;
use crate::out::{chain, say};

const EXAMPLE: &str = "offering an example server instead";
const VARIABLE: &str = "OSTLER_SOCKET";

#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Which {
    #[arg(help = "Use this socket of a gateway [env: OSTLER_SOCKET]")]
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
}

impl Which {
    /// The gateway that the user named, if any.
    pub(crate) fn said(&self) -> Result<Option<GatewaySocket>, SocketError> {
        let variable = || std::env::var_os(VARIABLE).filter(|v| !v.is_empty()).map(PathBuf::from);
        self.socket.clone().or_else(variable).map(|path| GatewaySocket::at(&path)).transpose()
    }

    /// The gateway that the user named, or the default one of this configuration.
    pub(crate) fn socket(
        &self,
        configuration: Option<&Path>,
    ) -> Result<GatewaySocket, SocketError> {
        match self.said()? {
            Some(socket) => Ok(socket),
            None => GatewaySocket::usual(configuration),
        }
    }
}

/// Finds the configuration. Having none is fine, unless the user named one.
pub(crate) fn configuration(
    given: Option<&Path>,
    asker: Asker,
) -> Result<Option<PathBuf>, NotFound> {
    match search(given, asker) {
        Ok(path) => Ok(Some(path)),
        Err(NotFound::Anywhere { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Like [`configuration`], for a gateway in the foreground. Without a configuration it prints where it looked.
pub(crate) fn configuration_or_example(given: Option<&Path>) -> Result<Option<PathBuf>, NotFound> {
    match search(given, Asker::Person) {
        Err(error @ NotFound::Anywhere { .. }) => {
            say(format_args!("{error}; {EXAMPLE}"));
            Ok(None)
        }
        found => found.map(Some),
    }
}

/// Like [`configuration`], for a client, and says why if it uses another one than the client's own.
pub(crate) fn configuration_to_follow(given: Option<&Path>) -> Result<Option<PathBuf>, NotFound> {
    let (path, remark) = followed_configuration(given)?;
    if let Some(remark) = remark {
        say(remark);
    }
    Ok(path)
}

/// Like [`configuration`], for a client. Without a configuration it is the one that was served last, with a remark: the
/// host of the client may have stripped the variables that lead to it.
pub(crate) fn followed_configuration(
    given: Option<&Path>,
) -> Result<(Option<PathBuf>, Option<String>), NotFound> {
    let error = match search(given, Asker::Client) {
        Err(error @ NotFound::Anywhere { .. }) => error,
        found => return Ok((Some(found?), None)),
    };
    let (path, what) = match last_configuration() {
        Ok(Some(path)) => {
            let what = format!("using {}, which was served last", path.display());
            (Some(path), what)
        }
        Ok(None) => (None, EXAMPLE.to_owned()),
        Err(reason) => (None, format!("{}; {EXAMPLE}", chain(&reason))),
    };
    Ok((path, Some(format!("{error}; {what}"))))
}

/// Reason why a gateway started by a client finds no configuration, if it finds none.
pub(crate) fn why_no_configuration() -> Option<String> {
    search(None, Asker::Client).err().map(|error| error.to_string())
}

fn search(given: Option<&Path>, asker: Asker) -> Result<PathBuf, NotFound> {
    let environment = Environment::of_process();
    let directory = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    Search { given, asker, environment: &environment, directory: &directory }.find()
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum AskError {
    #[error(transparent)]
    GatewaySocket(#[from] SocketError),
    #[error("no gateway runs; `ostler serve` or `ostler connect` starts one")]
    None,
    #[error("no gateway runs at {}; `ostler serve --socket` starts one there", .0.display())]
    NoneAt(PathBuf),
    #[error("several gateways run; choose one with --socket: {}", .0.join(", "))]
    Several(Vec<String>),
    #[error("{}", path.display())]
    Dial { path: PathBuf, source: DialError },
    #[error("no answer from the gateway")]
    Gone(#[source] LineError),
    #[error("cannot send to the gateway")]
    Untold(#[source] io::Error),
    #[error("unexpected answer of the gateway; is it another version of ostler?")]
    Strange,
    #[error("there is no server '{0}'; `ostler status` lists them")]
    NotFound(String),
    #[error("the gateway stopped its servers, but its process {pid} still runs after {limit:?}")]
    StillThere { pid: u32, limit: Duration },
    #[error("cannot create a runtime")]
    Backends(#[source] io::Error),
    #[error("{0}")]
    Failed(String),
}

impl AskError {
    /// Prints the error and returns its exit code.
    pub(crate) fn report(&self) -> ExitCode {
        say(chain(self));
        let code = match self {
            Self::None | Self::NoneAt(_) | Self::NotFound(_) => exit::NOT_FOUND,
            _ => exit::FAILED,
        };
        code.into()
    }
}

impl Which {
    /// Connects to the gateway that the user named, or to the only one.
    pub(crate) fn dial(&self) -> Result<GatewayConnection, AskError> {
        if let Some(socket) = self.said()? {
            let path = socket.path().to_owned();
            return GatewayConnection::to(&socket).map_err(|error| match error {
                DialError::NoGateway => AskError::NoneAt(path),
                source => AskError::Dial { path, source },
            });
        }
        let mut running = running();
        match running.len() {
            0 => Err(AskError::None),
            1 => Ok(running.remove(0).1),
            _ => {
                let path = |(socket, _): &(GatewaySocket, GatewayConnection)| {
                    socket.path().display().to_string()
                };
                Err(AskError::Several(running.iter().map(path).collect()))
            }
        }
    }

    /// Sends a request and waits for the answer.
    pub(crate) fn ask(&self, request: Request) -> Result<Reply, AskError> {
        ask(&self.dial()?, request)
    }

    /// Overviews of the named gateway, or of all that answer. Gateways that end meanwhile are left out.
    pub(crate) fn overviews(&self) -> Result<Vec<(GatewaySocket, Overview)>, AskError> {
        let gateways = match self.said()? {
            Some(socket) => vec![(socket, self.dial()?)],
            None => running(),
        };
        let overview = |(socket, gateway): (GatewaySocket, GatewayConnection)| match ask(
            &gateway,
            Request::Overview,
        ) {
            Ok(Reply::Overview(overview)) => Some((socket, overview)),
            _ => None,
        };
        Ok(gateways.into_iter().filter_map(overview).collect())
    }
}

/// Sends a request to a gateway and waits for the answer.
pub(crate) fn ask(gateway: &GatewayConnection, request: Request) -> Result<Reply, AskError> {
    gateway.say(&Hello::Admin(request), &[]).map_err(AskError::Untold)?;
    match gateway.receive().map_err(AskError::Gone)? {
        Reply::NotFound(name) => Err(AskError::NotFound(name)),
        Reply::Failed(reason) => Err(AskError::Failed(reason)),
        answer => Ok(answer),
    }
}

/// First line of a client in this directory, with the variables that the gateway wants to know.
pub(crate) fn client_hello(
    gateway: &GatewayConnection,
    server: Option<String>,
    agent: Option<Agent>,
) -> io::Result<ClientHello> {
    let wanted: Names = gateway.greeting.variables.iter().collect();
    Ok(ClientHello {
        server,
        agent,
        cwd: std::env::current_dir()?.into_os_string(),
        variables: Environment::of_process().asked_for(&wanted).into_iter().collect(),
    })
}

/// Says that there is no such thing, and which known name is most similar.
pub(crate) fn no_such(what: &str, name: &str, known: &[&str], lists: &str) -> String {
    match nearest(name, known) {
        Some(near) => format!("there is no {what} '{name}'; did you mean '{near}'?"),
        None => format!("there is no {what} '{name}'; `{lists}` lists them"),
    }
}

/// Connects to all running gateways: the shared ones, and those of the instances that contain this process.
pub(crate) fn running() -> Vec<(GatewaySocket, GatewayConnection)> {
    let dial = |socket: GatewaySocket| {
        GatewayConnection::to(&socket).ok().map(|gateway| (socket, gateway))
    };
    let around = instances_around(std::process::id().cast_signed());
    let inside = around.into_iter().flat_map(GatewaySocket::all_inside);
    GatewaySocket::all().into_iter().chain(inside).filter_map(dial).collect()
}
