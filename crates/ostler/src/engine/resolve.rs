//! Finds the engine that docker or podman would use in a server's environment.
//!
//! It repeats the lookup of those commands: flags of the server's own command, environment variables, docker contexts,
//! defaults.

mod context;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::getuid;

use context::existing;

use super::flags::Flags;
use super::invocation::{Invocation, Tool};
use crate::containers::{Endpoint, NoEndpoint, Tls};
use crate::spec::ServerSpec;

/// Docker's default address if TLS is requested.
const DOCKER_TLS: &str = "tcp://localhost:2376";

impl Endpoint {
    /// The engine that `docker`, or `podman` as client of a service, would use in the server's environment. If the
    /// server's own command is that tool, its flags count too.
    pub(crate) fn of(spec: &ServerSpec, tool: Tool) -> Result<Self, NoEndpoint> {
        let invocation = Invocation::of(spec);
        let own = invocation.filter(|found| found.tool == tool).map(|found| found.globals);
        let settings = ClientSettings { spec, globals: own.as_ref() };
        let endpoint = match tool {
            Tool::Docker => settings.docker()?,
            Tool::Podman => settings.podman()?,
        };
        Ok(endpoint.anchored(&settings.base()))
    }

    fn secured(self, files: Option<Tls>) -> Self {
        match self {
            Self::Tcp { host, port, .. } => Self::Tcp { host, port, tls: files },
            other => other,
        }
    }

    /// Makes the path absolute.
    fn anchored(self, base: &Path) -> Self {
        match self {
            Self::Unix(path) => Self::Unix(base.join(path)),
            other => other,
        }
    }
}

/// The inputs of the lookup.
struct ClientSettings<'a> {
    spec: &'a ServerSpec,
    globals: Option<&'a Flags<'a>>,
}

impl ClientSettings<'_> {
    fn docker(&self) -> Result<Endpoint, NoEndpoint> {
        let hosts = self.globals.map_or(0, |globals| globals.all(&["host", "H"]).count());
        let context = self.flag("a docker context", &["context", "c"])?;
        if hosts > 1 || (hosts == 1 && context.is_some()) {
            return Err(NoEndpoint::Contradiction);
        }
        if let Some(name) = context.filter(|name| name != context::DEFAULT) {
            return context::endpoint(&self.config_directory(), &name);
        }
        let host = match self.flag("an engine's address", &["host", "H"])? {
            None => self.variable("DOCKER_HOST")?,
            host => host,
        };
        let named = if host.is_some() { None } else { self.named_context()? };
        if let Some(name) = named {
            return context::endpoint(&self.config_directory(), &name);
        }
        let tls = self.docker_tls()?;
        let default = if tls.is_some() { DOCKER_TLS } else { "unix://" };
        Ok(host.as_deref().unwrap_or(default).parse::<Endpoint>()?.secured(tls))
    }

    /// The docker context in use, unless it is the default one.
    fn named_context(&self) -> Result<Option<String>, NoEndpoint> {
        // `--context default` overrides the configured context.
        if self.flag("a docker context", &["context", "c"])?.is_some() {
            return Ok(None);
        }
        let name = match self.variable("DOCKER_CONTEXT")? {
            None => context::current(&self.config_directory())?,
            name => name,
        };
        Ok(name.filter(|name| name != context::DEFAULT))
    }

    fn docker_tls(&self) -> Result<Option<Tls>, NoEndpoint> {
        let is_set = |name| self.raw(name).is_some_and(|value| !value.is_empty());
        let mentioned = |name| self.globals.is_some_and(|globals| globals.last(&[name]).is_some());
        let on = |name| self.globals.is_some_and(|globals| globals.is_on(name));
        let verify =
            if mentioned("tlsverify") { on("tlsverify") } else { is_set("DOCKER_TLS_VERIFY") };
        let wanted = if mentioned("tls") { on("tls") } else { is_set("DOCKER_TLS") };
        if !(wanted || verify || mentioned("tlsverify")) {
            return Ok(None);
        }
        let directory = match self.variable("DOCKER_CERT_PATH")? {
            Some(path) => self.base().join(path),
            None => self.config_directory(),
        };
        let file = |flag: &'static str, name| -> Result<Option<PathBuf>, NoEndpoint> {
            let given = self.flag("a path", &[flag])?.map(|path| self.base().join(path));
            Ok(given.or_else(|| existing(directory.join(name))))
        };
        let (ca, cert) = (file("tlscacert", "ca.pem")?, file("tlscert", "cert.pem")?);
        Ok(Some(Tls { ca, cert, key: file("tlskey", "key.pem")?, verify }))
    }

    fn podman(&self) -> Result<Endpoint, NoEndpoint> {
        let connection = match self.flag("a connection", &["connection", "c"])? {
            None => self.variable("CONTAINER_CONNECTION")?,
            name => name,
        };
        if let Some(url) = self.flag("a service's address", &["url"])? {
            return service(&url);
        }
        if let Some(name) = connection {
            return Err(NoEndpoint::Connection(name));
        }
        if let Some(url) = self.variable("CONTAINER_HOST")? {
            return service(&url);
        }
        let runtime = match self.raw("XDG_RUNTIME_DIR") {
            _ if getuid().is_root() => PathBuf::from("/run"),
            Some(directory) => directory.into(),
            None => format!("/run/user/{}", getuid().as_raw()).into(),
        };
        Ok(Endpoint::Unix(runtime.join("podman/podman.sock")))
    }

    /// Where the docker command keeps its configuration.
    fn config_directory(&self) -> PathBuf {
        let flag = self.globals.and_then(|globals| globals.last(&["config"])?.value);
        let variable = self.raw("DOCKER_CONFIG").filter(|value| !value.is_empty());
        let given = flag.or(variable).map(|path| self.base().join(path));
        given.unwrap_or_else(|| self.home().join(".docker"))
    }

    fn home(&self) -> PathBuf {
        let home = self.raw("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
        home.or_else(home_of_user).unwrap_or_default()
    }

    /// The last value of a flag. An empty value counts as none.
    fn flag(&self, what: &'static str, names: &[&str]) -> Result<Option<String>, NoEndpoint> {
        let value = self.globals.and_then(|globals| globals.last(names)?.value);
        value.map(|value| text(what, value)).transpose().map(non_empty)
    }

    fn variable(&self, name: &'static str) -> Result<Option<String>, NoEndpoint> {
        self.raw(name).map(|value| text(name, value)).transpose().map(non_empty)
    }

    fn raw(&self, name: &str) -> Option<&OsStr> {
        let found = self.spec.env.iter().find(|(variable, _)| variable == name);
        found.map(|(_, value): &(OsString, OsString)| value.as_os_str())
    }

    /// The directory that relative paths are relative to.
    fn base(&self) -> PathBuf {
        let own = std::env::current_dir().unwrap_or_default();
        self.spec.cwd.as_deref().map_or(own.clone(), |cwd| own.join(cwd))
    }
}

/// Parses a service's address. Podman also accepts and prints `unix:/PATH` with a single slash.
fn service(url: &str) -> Result<Endpoint, NoEndpoint> {
    let path = url.strip_prefix("unix:").filter(|p| p.starts_with('/') && !p.starts_with("//"));
    path.map_or_else(|| Ok(url.parse()?), |path| Ok(Endpoint::Unix(path.into())))
}

fn text(what: &'static str, value: &OsStr) -> Result<String, NoEndpoint> {
    value.to_str().map(str::to_owned).ok_or(NoEndpoint::NotText(what))
}

fn non_empty(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

/// Home directory from /etc/passwd, for an environment without `HOME`.
fn home_of_user() -> Option<PathBuf> {
    let users = fs::read_to_string("/etc/passwd").ok()?;
    let uid = getuid().as_raw().to_string();
    let mut fields = users.lines().map(|line| line.split(':'));
    let home = fields.find_map(|mut user| (user.nth(2)? == uid).then(|| user.nth(2))?);
    home.map(|home| Path::new(home).to_owned())
}

#[cfg(test)]
mod tests;
