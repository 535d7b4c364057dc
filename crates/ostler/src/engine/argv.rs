//! Edits docker and podman command lines that create something: adds labels, and an init to the server's own
//! container.
//!
//! For a docker command this is a second line of defence behind the Door; for podman without a service it is the only
//! one. The added flags stand right after the subcommand, where both commands accept flags whatever follows, and where
//! the user's own flags come later and win.

use std::ffi::OsString;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::flags::{Flag, Flags, Table, Valued};
use super::invocation::{Invocation, Tool};
use crate::containers::Labels;
use crate::engine::label::{Pair, ReservedLabel, parts};
use crate::spec::ServerSpec;

/// Flags of `run` and `create`, of docker and podman together.
const OPTIONS: Table = Table {
    switches: &[
        "d",
        "detach",
        "disable-content-trust",
        "env-host",
        "help",
        "http-proxy",
        "i",
        "init",
        "interactive",
        "no-healthcheck",
        "no-hostname",
        "no-hosts",
        "oom-kill-disable",
        "P",
        "passwd",
        "privileged",
        "publish-all",
        "q",
        "quiet",
        "read-only",
        "read-only-tmpfs",
        "replace",
        "rm",
        "rmi",
        "rootfs",
        "sig-proxy",
        "t",
        "tls-verify",
        "tty",
        "unsetenv-all",
        "use-api-socket",
    ],
    valued: Valued::AllOthers,
};

/// Flags of `podman pod create` and `podman network create`.
const GROUP_OPTIONS: Table = Table {
    switches: &[
        "disable-dns",
        "help",
        "ignore",
        "infra",
        "internal",
        "ipv6",
        "no-hostname",
        "no-hosts",
        "replace",
        "share-parent",
    ],
    valued: Valued::AllOthers,
};

/// Podman's default paths of its init program.
const PODMAN_INITS: [&str; 4] = [
    "/usr/libexec/podman/catatonit",
    "/usr/local/libexec/podman/catatonit",
    "/usr/local/lib/podman/catatonit",
    "/usr/lib/podman/catatonit",
];

/// Kind of object that a command creates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CreateKind {
    Container,
    /// Podman only.
    Pod,
    Network,
}

/// A docker or podman command that creates one object that can carry labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CreateCommand {
    kind: CreateKind,
    /// Argument index at which flags can be inserted.
    at: usize,
    /// Argument index after the user's flags, if those set a restart policy that must be overridden.
    restart_at: Option<usize>,
    /// Whether `--init` can be added.
    wants_init: bool,
    /// Whether the container keeps running without the command.
    is_detached: bool,
    /// The labels that the command line sets, as `name=value`.
    labels: Vec<String>,
}

impl CreateCommand {
    /// Parses a command line. `None` if it creates nothing, or has flags that we can't parse.
    pub(crate) fn of(spec: &ServerSpec) -> Option<Self> {
        let Invocation { tool, rest, .. } = Invocation::of(spec)?;
        let word = |n: usize| rest.get(n).and_then(|word| word.to_str()).unwrap_or_default();
        let (kind, words) = match (tool, word(0), word(1)) {
            (_, "run" | "create", _) => (CreateKind::Container, 1),
            (_, "container", "run" | "create") => (CreateKind::Container, 2),
            (Tool::Podman, "pod", "create") => (CreateKind::Pod, 2),
            (Tool::Podman, "network", "create") => (CreateKind::Network, 2),
            _ => return None,
        };
        let table = if kind == CreateKind::Container { &OPTIONS } else { &GROUP_OPTIONS };
        let options = rest.get(words..).and_then(|rest| Flags::read(rest, table))?;
        let label = |flag: &Flag<'_>| flag.value.map(|value| value.to_string_lossy().into_owned());
        let at = spec.args.len() - rest.len() + words;
        let restarts = tool == Tool::Podman && asks_for_restarts(&options);
        Some(Self {
            kind,
            at,
            restart_at: restarts.then_some(at + options.words),
            wants_init: kind == CreateKind::Container && wants_init(tool, &options),
            is_detached: word(words - 1) == "create"
                || options.is_on("d")
                || options.is_on("detach"),
            labels: options.all(&["label", "l"]).filter_map(label).collect(),
        })
    }

    pub(crate) fn kind(&self) -> CreateKind {
        self.kind
    }

    pub(crate) fn is_container(&self) -> bool {
        self.kind == CreateKind::Container
    }

    /// Refuses a command that sets a reserved label, which would override ours because it comes later.
    pub(crate) fn check_labels(&self, ours: &Labels) -> Result<(), ReservedLabel> {
        self.labels.iter().try_for_each(|label| {
            let (name, value) = parts(label);
            ours.check(name, value)
        })
    }

    /// Adds our labels, and `--init` if the command line does not mention it.
    pub(crate) fn add_labels_and_init(&self, spec: &mut ServerSpec, labels: &Labels) {
        self.add(spec, &labels.pairs(), self.wants_init);
    }

    /// Adds our labels and the label of this podman call.
    pub(crate) fn add_labels(&self, spec: &mut ServerSpec, labels: &Labels, call: Option<Pair>) {
        let pairs: Vec<Pair> = labels.pairs().into_iter().chain(call).collect();
        self.add(spec, &pairs, false);
    }

    fn add(&self, spec: &mut ServerSpec, labels: &[Pair], init: bool) {
        if let Some(end) = self.restart_at {
            spec.args.insert(end, "--restart=no".into());
        }
        let label = |(name, value): &Pair| format!("--label={name}={value}").into();
        let mut added: Vec<OsString> = labels.iter().map(label).collect();
        added.extend(init.then(|| "--init".into()));
        spec.args.splice(self.at..self.at, added);
    }
}

/// Whether a command line creates a container that keeps running without it; `None` if it creates no container.
pub(crate) fn detaches(words: &[String]) -> Option<bool> {
    let (program, args) = words.split_first()?;
    let spec = ServerSpec {
        name: String::new(),
        program: program.into(),
        args: args.iter().map(Into::into).collect(),
        env: Vec::new(),
        cwd: None,
    };
    CreateCommand::of(&spec).filter(CreateCommand::is_container).map(|create| create.is_detached)
}

/// Removes the flags by which a docker or podman command selects its engine, because they override the environment.
/// Keeps all others, in order.
pub(crate) fn remove_engine_flags(spec: &mut ServerSpec) {
    let Some(Invocation { tool, globals, rest }) = Invocation::of(spec) else { return };
    if globals.last(tool.engine_flags()).is_none() {
        return;
    }
    let others = globals.given.iter().filter(|flag| !tool.engine_flags().contains(&flag.name));
    let words = others.map(Flag::word).chain(rest.iter().cloned()).collect();
    spec.args = words;
}

/// The program of the command, if it is podman.
pub(crate) fn podman_program(spec: &ServerSpec) -> Option<&Path> {
    let program = Path::new(&spec.program);
    Some(program).filter(|program| program.file_name().is_some_and(|name| name == "podman"))
}

/// The arguments before the subcommand of a docker or podman command.
pub(crate) fn global_words(spec: &ServerSpec) -> &[OsString] {
    let words = Invocation::of(spec).map_or(0, |found| found.globals.words);
    spec.args.get(..words).unwrap_or_default()
}

/// Whether podman uses a service in this environment, or with the flags of this command.
pub(crate) fn is_remote(spec: &ServerSpec) -> bool {
    let own = Invocation::of(spec).filter(|found| found.tool == Tool::Podman);
    let own = own.map(|found| found.globals);
    if let Some((globals, word)) =
        own.as_ref().and_then(|own| Some((own, own.last(&["remote", "r"])?)))
    {
        return globals.is_on(word.name);
    }
    let is_set = |name| spec.env.iter().any(|(one, value)| one == name && !value.is_empty());
    own.is_some_and(|own| own.last(Tool::Podman.engine_flags()).is_some())
        || ["CONTAINER_HOST", "CONTAINER_CONNECTION"].into_iter().any(is_set)
}

/// Whether `--init` can be added. Podman refuses an init that is not pid 1 of its namespace, and has none if its
/// package was installed without recommended ones.
fn wants_init(tool: Tool, options: &Flags<'_>) -> bool {
    let is_refused = || match tool {
        Tool::Docker => false,
        Tool::Podman => {
            options.last(&["pid", "pod"]).is_some()
                || !PODMAN_INITS.iter().any(|path| Path::new(path).exists())
        }
    };
    options.last(&["init"]).is_none() && !is_refused()
}

/// Whether the flags set a restart policy. Invalid policies don't count: the command itself refuses them.
fn asks_for_restarts(options: &Flags<'_>) -> bool {
    let policy = options.last(&["restart"]).and_then(|flag| flag.value?.to_str());
    let policy = policy.unwrap_or_default().split(':').next().unwrap_or_default();
    ["always", "on-failure", "unless-stopped"].contains(&policy)
}

#[cfg(test)]
mod tests;
