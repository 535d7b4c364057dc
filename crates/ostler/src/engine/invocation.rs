//! A server's own command, if it is the docker or podman command.

use std::ffi::OsString;
use std::path::Path;

use super::flags::{Flags, Table, Valued};
use crate::containers::Engine;
use crate::spec::ServerSpec;

/// Which command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tool {
    Docker,
    Podman,
}

/// A call of the docker or podman command.
#[derive(Debug)]
pub(super) struct Invocation<'a> {
    pub(super) tool: Tool,
    /// The flags before the subcommand.
    pub(super) globals: Flags<'a>,
    /// The subcommand and what follows.
    pub(super) rest: &'a [OsString],
}

impl<'a> Invocation<'a> {
    /// `None` if the server's command is another one, or has a flag before the subcommand that we
    /// don't know: what follows that could be its value or the subcommand.
    pub(super) fn of(spec: &'a ServerSpec) -> Option<Self> {
        let tool = match Path::new(&spec.program).file_name()?.to_str()? {
            "docker" => Tool::Docker,
            "podman" => Tool::Podman,
            _ => return None,
        };
        let globals = Flags::read(&spec.args, tool.globals())?;
        let rest = spec.args.get(globals.words..)?;
        Some(Self { tool, globals, rest })
    }
}

impl Tool {
    /// Those whose containers are followed.
    pub(crate) fn followed(spec: &ServerSpec, engine: Engine) -> &'static [Self] {
        let own = || Invocation::of(spec).map(|found| found.tool);
        match engine {
            Engine::Off => &[],
            Engine::Docker => &[Self::Docker],
            Engine::Podman => &[Self::Podman],
            Engine::Auto => match own() {
                Some(Self::Docker) => &[Self::Docker],
                Some(Self::Podman) => &[Self::Podman],
                None => &[Self::Docker, Self::Podman],
            },
        }
    }

    /// The flags by which its command line says which engine it means.
    pub(super) fn engine_flags(self) -> &'static [&'static str] {
        match self {
            Self::Docker => {
                &["host", "H", "context", "c", "tls", "tlsverify", "tlscacert", "tlscert", "tlskey"]
            }
            Self::Podman => &["url", "connection", "c", "identity"],
        }
    }

    fn globals(self) -> &'static Table {
        match self {
            Self::Docker => &DOCKER,
            Self::Podman => &PODMAN,
        }
    }
}

const DOCKER: Table = Table {
    switches: &["debug", "D", "help", "h", "tls", "tlsverify", "version", "v"],
    valued: Valued::These(&[
        "config",
        "context",
        "c",
        "host",
        "H",
        "log-level",
        "l",
        "tlscacert",
        "tlscert",
        "tlskey",
    ]),
};

const PODMAN: Table = Table {
    switches: &[
        "help",
        "h",
        "noout",
        "remote",
        "r",
        "syslog",
        "trace",
        "transient-store",
        "version",
        "v",
    ],
    valued: Valued::These(&[
        "cdi-spec-dir",
        "cgroup-manager",
        "cni-config-dir",
        "config",
        "conmon",
        "connection",
        "c",
        "cpu-profile",
        "db-backend",
        "default-mounts-file",
        "events-backend",
        "hooks-dir",
        "identity",
        "imagestore",
        "log-level",
        "max-workers",
        "memory-profile",
        "module",
        "namespace",
        "network-cmd-path",
        "network-config-dir",
        "out",
        "pull-option",
        "registries-conf",
        "root",
        "runroot",
        "runtime",
        "runtime-flag",
        "ssh",
        "storage-driver",
        "storage-opt",
        "tmpdir",
        "url",
        "volumepath",
    ]),
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_names_no_engine_may_use_both() {
        let followed = |program: &str, engine| {
            let spec = ServerSpec {
                name: "server".into(),
                program: program.into(),
                args: Vec::new(),
                env: Vec::new(),
                cwd: None,
            };
            Tool::followed(&spec, engine)
        };
        assert_eq!(followed("npx", Engine::Auto), [Tool::Docker, Tool::Podman]);
        assert_eq!(followed("/usr/bin/podman", Engine::Auto), [Tool::Podman]);
        assert_eq!(followed("docker", Engine::Auto), [Tool::Docker]);
        assert_eq!(followed("docker", Engine::Podman), [Tool::Podman]);
        assert_eq!(followed("docker", Engine::Off), []);
    }
}
