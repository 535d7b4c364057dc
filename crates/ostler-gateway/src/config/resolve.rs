//! Resolves a configuration entry for one client into a server that the keeper can start.
//!
//! `resolve` fills in the entry's templates from the client's environment and directory, and returns the `Server` and
//! its `Identity`. A failure disables this server for this client only.
//!
//! The environment of a local server has three layers, the later ones winning: variables that it inherits from the
//! client, the variables of `envFile`, and those of `env`. The fingerprint in the identity covers only what the entry
//! itself sets, so that two terminals with different `PATH` or `TERM` still have the same server; `ambient` decides how
//! inherited variables count for sharing instances.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ostler::keeper::{Ambient, Fingerprint, Server, Sharing};
use ostler::{Limits, ServerSpec, Terms};

use super::ambient;
use super::describe;
use super::entry::{Launch, Reach, ServerEntry};
use super::env_file::{self, EnvFileError};
use super::remote::resolve_remote;
use super::source::Unreadable;
use super::template::Filling;
use super::words::Share;
use crate::environment::Environment;
use crate::remote::InvalidAddress;
use crate::remote::oauth::NoStore;

/// Why a client can't use a server. Other servers are not affected.
#[derive(Debug, thiserror::Error)]
pub enum Disabled {
    /// The configuration disables the server.
    #[error("the configuration says `enabled: false`")]
    Off,
    /// Variables that the entry names are not set.
    #[error("{} not set", sentence(names))]
    Unset {
        /// Names of the variables.
        names: Vec<String>,
    },
    /// The entry contains placeholders that only another client can fill in.
    #[error("only another client can fill in {}; use variables instead", foreign(names))]
    Foreign {
        /// The placeholders, without braces.
        names: Vec<String>,
    },
    /// The `envFile` can't be used.
    #[error("its envFile{}", unnamed(path, source))]
    EnvFile {
        /// The file.
        path: PathBuf,
        /// The error.
        source: EnvFileError,
    },
    /// The command is empty after its variables are filled in.
    #[error("its command is empty")]
    NoCommand,
    /// A value contains a NUL byte, which can't be passed to a process.
    #[error("one of its variables contains a NUL byte")]
    Nul,
    /// The URL is invalid.
    #[error(transparent)]
    Address(#[from] InvalidAddress),
    /// A header value contains characters that HTTP does not allow.
    #[error("the header {name} has a value that can't be sent")]
    Header {
        /// Name of the header.
        name: String,
    },
    /// The file with the bearer token can't be read.
    #[error("its bearerTokenFile")]
    TokenFile {
        /// The file.
        path: PathBuf,
        /// The error.
        source: Unreadable,
    },
    /// There is no directory for logins.
    #[error(transparent)]
    NoStore(#[from] NoStore),
}

impl Disabled {
    /// What to do about it, if the message does not say it.
    pub fn advice(&self) -> Option<String> {
        let advice = match self {
            Self::Off => "remove `enabled: false` from its configuration",
            Self::Unset { names } => {
                let (all, first) = (names.join(" and "), names.first().map_or("X", String::as_str));
                return Some(format!(
                    "set {all} where the client or the gateway starts, or write a default: `${{{first}:-value}}`"
                ));
            }
            Self::EnvFile { .. } => "correct its `envFile`, or create the file",
            Self::NoCommand => "correct the variables in its `command`",
            Self::Header { .. } => "remove line breaks and other control characters from the value",
            Self::TokenFile { .. } => "correct its `bearerTokenFile`, or create the file",
            Self::Foreign { .. } | Self::Nul | Self::Address(_) | Self::NoStore(_) => return None,
        };
        Some(advice.to_owned())
    }
}

/// A server in one client's variant.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// The server for the keeper.
    pub server: Server,
    /// Identity of the server in the catalog.
    pub identity: Identity,
}

/// Identity of a server: what its entry sets, with the client's variables filled in.
///
/// The catalog assumes that servers of one identity offer the same tools, and shows what one of them listed for the
/// others. Variables that a server only inherits from its client (`PATH`, `TERM`, ...) are no part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Hash of the command, arguments, directory and variables that the entry sets.
    pub fingerprint: Fingerprint,
    /// The client's directory, if the server runs there because its entry sets no `cwd`.
    pub directory: Option<PathBuf>,
}

impl Identity {
    /// Identity of a server without a configuration entry.
    pub fn of(server: &Server) -> Self {
        Self { fingerprint: server.fingerprint(), directory: None }
    }
}

/// Resolves an entry for a client with this environment and working directory.
///
/// The caller adds the protocol: without it, the server counts as ready as soon as its program runs, and refuses
/// requests.
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
    // Each session or call has an instance of its own, so only a limit on the total is meaningful.
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
    let display = Some(describe::command_line(launch).into());
    Ok(Resolved { server: Server { terms, ambient, display, ..Server::new(spec) }, identity })
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
    // With `share: all` the client's directory is not used: each directory would get an instance of its own.
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

/// Whether any text contains a NUL byte. Clients send variables and may send anything.
fn has_nul(spec: &ServerSpec) -> bool {
    let words = spec.args.iter().chain([&spec.program]).map(OsString::as_os_str);
    let variables = spec.env.iter().flat_map(|(name, value)| [name.as_os_str(), value.as_os_str()]);
    let cwd = spec.cwd.iter().map(|cwd| cwd.as_os_str());
    words.chain(variables).chain(cwd).any(|word: &OsStr| word.as_bytes().contains(&0))
}

/// The path of an `envFile`, unless the error names it.
fn unnamed(path: &Path, error: &EnvFileError) -> String {
    match error {
        EnvFileError::Unreadable(_) => String::new(),
        EnvFileError::Line { .. } => format!(" {}", path.display()),
    }
}

fn sentence(names: &[String]) -> String {
    let verb = if names.len() == 1 { "is" } else { "are" };
    format!("{} {verb}", names.join(", "))
}

fn foreign(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("${{{name}}}")).collect();
    names.join(", ")
}
