//! Why a server has no log.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;

use ostler::logs::Logs;
use ostler::{Places, View};
use ostler_gateway::config::{self, Reach};

use crate::backends::BlockingBackends;
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
    /// `ostler run` started it for this client.
    Wrapped { pid: String, client: Option<String> },
    /// No server has this name, but these.
    Unknown { known: Vec<String> },
}

impl Absence {
    /// Looks for the server in the ledgers, in running gateways and in the configuration.
    pub(super) fn of(server: &str) -> Self {
        let places = Places::of_user();
        let views = BlockingBackends::new().map_or_else(|_| Vec::new(), |it| it.snapshot(&places));
        let configured = configured();
        let wrapped = || views.iter().find(|view| view.name == server).map(Why::wrapped);
        let why = match configured.get(server) {
            Some(true) => Why::Remote,
            Some(false) => Why::Silent,
            None => wrapped().unwrap_or_else(|| {
                let logs = Logs::all(&places);
                let mut known: Vec<String> = logs.iter().flat_map(Logs::servers).collect();
                known.extend(configured.into_keys().chain(views.into_iter().map(|it| it.name)));
                Why::Unknown { known }
            }),
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

impl Why {
    fn wrapped(view: &View) -> Self {
        let client = view.owner.client.as_ref();
        Self::Wrapped {
            pid: view.handle.clone().unwrap_or_else(|| "-".into()),
            client: client.map(|client| format!("{} ({})", client.name, client.process.pid)),
        }
    }
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
            Why::Wrapped { pid, client } => {
                let client = client.as_deref().unwrap_or("its client");
                write!(f, "{server}: no log: it runs under `ostler run` (pid {pid}), ")?;
                write!(f, "so its stderr goes to {client}")
            }
            Why::Unknown { known } => {
                let known: Vec<&str> = known.iter().map(String::as_str).collect();
                f.write_str(&no_such("server", server, &known, "ostler status"))
            }
        }
    }
}
