//! Why a server, or one of its instances, has no log.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;

use ostler::logs::Logs;
use ostler::{Places, View};
use ostler_gateway::config::{self, Reach};

use crate::backends::BlockingBackends;
use crate::commands::{run, serve};
use crate::exit;
use crate::gateways::{Which, followed_configuration, no_such};

pub(super) struct Absence {
    server: String,
    why: Why,
}

enum Why {
    /// A local server that has written nothing.
    Silent,
    /// A remote server that has not failed.
    Remote,
    /// It runs, and its owner has its stderr.
    Unlogged(Unlogged),
    /// No server has this name, but these.
    Unknown { known: Vec<String> },
}

impl Absence {
    /// Looks for the server in the ledgers, in running gateways and in the configuration.
    pub(super) fn of(server: &str) -> Self {
        let mut views = views();
        if let Some(unlogged) = Unlogged::among(&views, server) {
            return Self { server: server.to_owned(), why: Why::Unlogged(unlogged) };
        }
        // One that runs has a log as soon as it writes.
        let mut servers = configured();
        servers.extend(views.drain(..).map(|view| (view.name, false)));
        let why = match servers.get(server) {
            Some(true) => Why::Remote,
            Some(false) => Why::Silent,
            None => {
                let logs = Logs::all(&Places::of_user());
                let known = logs.iter().flat_map(Logs::servers).chain(servers.into_keys());
                Why::Unknown { known: known.collect() }
            }
        };
        Self { server: server.to_owned(), why }
    }

    /// Whether a log may appear later.
    pub(super) fn may_end(&self) -> bool {
        matches!(self.why, Why::Silent | Why::Remote)
    }

    pub(super) fn code(&self) -> ExitCode {
        if self.may_end() { ExitCode::SUCCESS } else { exit::NOT_FOUND.into() }
    }
}

/// A running instance whose stderr goes to its owner or to the client of `ostler run`, and to no log.
pub(super) struct Unlogged {
    pid: String,
    owner: String,
    client: Option<String>,
}

impl Unlogged {
    /// The first such instance of the server, if there is one.
    pub(super) fn of(server: &str) -> Option<Self> {
        Self::among(&views(), server)
    }

    fn among(views: &[View], server: &str) -> Option<Self> {
        let is_unlogged = |view: &&View| {
            view.name == server
                && view.entry.intent.log.is_none()
                && view.owner.program != serve::life::OWNER
        };
        views.iter().find(is_unlogged).map(|view| {
            let client = view.owner.client.as_ref();
            Self {
                pid: view.handle.clone().unwrap_or_else(|| "-".into()),
                owner: view.owner.program.clone(),
                client: client.map(|client| format!("{} ({})", client.name, client.process.pid)),
            }
        })
    }
}

/// Running instances, according to the ledgers.
fn views() -> Vec<View> {
    // The log needs no ledger.
    BlockingBackends::new().map_or_else(|_| Vec::new(), |all| all.snapshot(&Places::of_user()))
}

/// Configured servers, and whether each is remote: of all running gateways, else of the next one.
fn configured() -> BTreeMap<String, bool> {
    // The log needs no gateway, so one that does not answer is no failure.
    let overviews = Which::default().overviews().unwrap_or_default();
    let mut servers = BTreeMap::new();
    let mut files: Vec<PathBuf> = Vec::new();
    for (_, overview) in overviews {
        servers.extend(overview.servers.into_iter().map(|server| (server.name, false)));
        files.extend(overview.configuration.map(PathBuf::from));
    }
    if servers.is_empty() {
        files.extend(followed_configuration(None).ok().and_then(|(path, _)| path));
    }
    for file in files.iter().filter_map(|path| config::load(path).ok()) {
        let is_remote = |reach: &Reach| matches!(reach, Reach::Remote(_));
        servers.extend(file.servers.iter().map(|(name, it)| (name.clone(), is_remote(&it.reach))));
    }
    servers
}

impl fmt::Display for Absence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let server = &self.server;
        match &self.why {
            Why::Silent => write!(
                f,
                "{server}: no log yet: it has written nothing to stderr, and no start of it has failed"
            ),
            Why::Remote => write!(
                f,
                "{server}: no log yet: a remote server has no stderr, and no connection to it has failed"
            ),
            Why::Unlogged(unlogged) => write!(f, "{server}: no log: {unlogged}"),
            Why::Unknown { known } => {
                let known: Vec<&str> = known.iter().map(String::as_str).collect();
                f.write_str(&no_such("server", server, &known, "ostler status"))
            }
        }
    }
}

impl fmt::Display for Unlogged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pid, owner, client } = self;
        if owner != run::OWNER {
            return write!(f, "pid {pid} runs under {owner}, which gets its stderr");
        }
        let client = client.as_deref().unwrap_or("the client");
        write!(f, "pid {pid} runs under `{owner}` without --log, so its stderr goes to {client}")
    }
}
