//! Recognises a server whose own command is docker or podman.

use std::ffi::OsString;
use std::path::Path;

use super::flags::{Flags, Table, Valued};
use crate::containers::Engine;
use crate::spec::ServerSpec;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tool {
    Docker,
    Podman,
}

/// A parsed docker or podman command line.
#[derive(Debug)]
pub(super) struct Invocation<'a> {
    pub(super) tool: Tool,
    /// Flags before the subcommand.
    pub(super) globals: Flags<'a>,
    /// The subcommand and its arguments.
    pub(super) rest: &'a [OsString],
}

impl<'a> Invocation<'a> {
    /// `None` if the command is another program, or has an unknown flag before the subcommand: what follows such a
    /// flag could be its value or the subcommand.
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
    /// The tools whose containers are tracked for a server.
    pub(crate) fn tracked(spec: &ServerSpec, engine: Engine) -> &'static [Self] {
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

    /// The flags that select the engine.
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
    fn a_server_that_names_no_engine_may_use_both() {
        let tracked = |program: &str, engine| {
            let spec = ServerSpec {
                name: "server".into(),
                program: program.into(),
                args: Vec::new(),
                env: Vec::new(),
                cwd: None,
            };
            Tool::tracked(&spec, engine)
        };
        assert_eq!(tracked("npx", Engine::Auto), [Tool::Docker, Tool::Podman]);
        assert_eq!(tracked("/usr/bin/podman", Engine::Auto), [Tool::Podman]);
        assert_eq!(tracked("docker", Engine::Auto), [Tool::Docker]);
        assert_eq!(tracked("docker", Engine::Podman), [Tool::Podman]);
        assert_eq!(tracked("docker", Engine::Off), []);
    }
}
