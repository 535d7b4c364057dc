//! From an entry to a server that can be started.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ostler::keeper::{Ambient, Fingerprint, Server, Sharing};
use ostler::{Limits, ServerSpec, Terms};

use super::ambient;
use super::entry::{Launch, Reach, ServerEntry};
use super::env_file::{self, EnvFileError};
use super::remote::resolve_remote;
use super::source::Unreadable;
use super::template::Filling;
use super::words::Share;
use crate::environment::Environment;
use crate::remote::InvalidAddress;
use crate::remote::oauth::NoStore;

/// Why a server is not there for somebody. The others are.
#[derive(Debug, thiserror::Error)]
pub enum Disabled {
    /// The configuration says so.
    #[error("the configuration says `enabled: false`")]
    Off,
    /// Variables that it names are not set.
    #[error("{} not set", sentence(names))]
    Unset {
        /// These.
        names: Vec<String>,
    },
    /// It wants something that only another client can fill in.
    #[error("only another client can fill in {}; use variables instead", foreign(names))]
    Foreign {
        /// This.
        names: Vec<String>,
    },
    /// Its file of variables can't be used.
    #[error("its envFile {}", path.display())]
    EnvFile {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: EnvFileError,
    },
    /// The variables in its command are empty.
    #[error("its command is empty")]
    NoCommand,
    /// A variable holds what can't be given to a process.
    #[error("one of its variables contains a NUL byte")]
    Nul,
    /// Where it is reached is nowhere.
    #[error(transparent)]
    Address(#[from] InvalidAddress),
    /// A variable holds what can't be sent.
    #[error("the header {name} has a value that can't be sent")]
    Header {
        /// Which one.
        name: String,
    },
    /// The file of its token can't be used.
    #[error("its bearerTokenFile {}", path.display())]
    TokenFile {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: Unreadable,
    },
    /// There is no place for logins.
    #[error(transparent)]
    NoStore(#[from] NoStore),
}

/// A server as one client gets it.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// What to run or reach.
    pub server: Server,
    /// What its entry says.
    pub identity: Identity,
}

/// What the entry of a server says, with the client's variables filled in.
///
/// Servers of one identity are taken to offer the same, so what one of them has listed is shown for the others. What a
/// server only inherits from its client (`PATH`, `TERM`, ...) is no part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// A hash of the command, its arguments, its directory and its variables, as far as the entry names them.
    pub fingerprint: Fingerprint,
    /// The client's directory, if the server works there because its entry names none.
    pub directory: Option<PathBuf>,
}

impl Identity {
    /// Of a server that is known only by what it runs.
    pub fn of(server: &Server) -> Self {
        Self { fingerprint: server.fingerprint(), directory: None }
    }
}

/// What to run for somebody with these variables who works in this directory.
///
/// The protocol is the caller's: the server is ready as soon as its program runs, and refuses requests.
pub fn resolve(
    entry: &ServerEntry,
    environment: &Environment,
    cwd: &Path,
) -> Result<Resolved, Disabled> {
    if !entry.enabled {
        return Err(Disabled::Off);
    }
    let Resolved { server, identity } = match &entry.reach {
        Reach::Process(launch) => process(entry, launch, environment, cwd)?,
        Reach::Remote(remote) => {
            let remote = resolve_remote(&entry.name, remote, environment, cwd)?;
            let server = Server::remote(Arc::new(remote));
            Resolved { identity: Identity::of(&server), server }
        }
    };
    // Each session or call has an instance of its own, so that only a limit over all of them says anything.
    let is_shared = matches!(entry.share, Share::All | Share::Agent);
    let server = Server {
        sharing: entry.share.into(),
        max_instances: entry.max_instances.unwrap_or(server.max_instances),
        cap: entry.max_instances.filter(|_| !is_shared),
        max_concurrency: entry.max_concurrency,
        limits: entry.limits,
        ..server
    };
    Ok(Resolved { server, identity })
}

fn process(
    entry: &ServerEntry,
    launch: &Launch,
    environment: &Environment,
    cwd: &Path,
) -> Result<Resolved, Disabled> {
    let (spec, ambient, identity) = spec(entry, launch, environment, cwd)?;
    let terms = Terms {
        containment: launch.containment.into(),
        limits: Limits { grace: launch.grace, ..Limits::default() },
        resources: launch.resources,
        engine: launch.engine.into(),
        ..Terms::default()
    };
    Ok(Resolved { server: Server { terms, ambient, ..Server::new(spec) }, identity })
}

fn spec(
    entry: &ServerEntry,
    launch: &Launch,
    environment: &Environment,
    cwd: &Path,
) -> Result<(ServerSpec, Ambient, Identity), Disabled> {
    let mut filling = Filling::new(environment, cwd);
    let program = launch.command.fill(&mut filling);
    let args: Vec<OsString> = launch.args.iter().map(|word| word.fill(&mut filling)).collect();
    let own: Vec<(OsString, OsString)> = launch
        .env
        .iter()
        .map(|(name, value)| (OsString::from(name), value.fill(&mut filling)))
        .collect();
    let env_file = launch.env_file.as_ref().map(|path| path.fill(&mut filling));
    let own_cwd = launch.cwd.as_ref().map(|path| cwd.join(path.fill(&mut filling)));
    check(filling)?;
    if program.is_empty() {
        return Err(Disabled::NoCommand);
    }
    let mut named = Environment::default();
    if let Some(path) = env_file {
        let path = launch.directory.join(path);
        let read = env_file::read(&path);
        named.extend(read.map_err(|source| Disabled::EnvFile { path, source })?);
    }
    named.extend(own);
    let configured = ServerSpec {
        name: entry.name.clone(),
        program,
        args,
        env: named.clone().into_iter().collect(),
        cwd: own_cwd,
    };
    // A server that is everybody's is nobody's guest: it would be another one in each directory.
    let is_guest = configured.cwd.is_none() && Sharing::from(entry.share) != Sharing::All;
    let directory = is_guest.then(|| cwd.to_owned());
    let fingerprint = Fingerprint::of(&configured, &[]);
    let mut env = launch.inherit.of(environment);
    env.extend(named.clone());
    let cwd = configured.cwd.clone().or_else(|| directory.clone());
    let mut spec = ServerSpec { env: env.into_iter().collect(), cwd, ..configured };
    if has_nul(&spec) {
        return Err(Disabled::Nul);
    }
    let ambient = ambient::settle(&mut spec, &named, environment);
    Ok((spec, ambient, Identity { fingerprint, directory }))
}

pub(super) fn check(filling: Filling<'_>) -> Result<(), Disabled> {
    if !filling.unset.is_empty() {
        return Err(Disabled::Unset { names: filling.unset.into_iter().collect() });
    }
    if !filling.foreign.is_empty() {
        return Err(Disabled::Foreign { names: filling.foreign.into_iter().collect() });
    }
    Ok(())
}

/// Variables come from clients, who can send anything.
fn has_nul(spec: &ServerSpec) -> bool {
    let words = spec.args.iter().chain([&spec.program]).map(OsString::as_os_str);
    let variables = spec.env.iter().flat_map(|(name, value)| [name.as_os_str(), value.as_os_str()]);
    let cwd = spec.cwd.iter().map(|cwd| cwd.as_os_str());
    words.chain(variables).chain(cwd).any(|word: &OsStr| word.as_bytes().contains(&0))
}

fn sentence(names: &[String]) -> String {
    let verb = if names.len() == 1 { "is" } else { "are" };
    format!("{} {verb}", names.join(", "))
}

fn foreign(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("${{{name}}}")).collect();
    names.join(", ")
}
