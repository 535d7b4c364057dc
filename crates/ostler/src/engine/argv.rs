//! Commands that make a container, such as `docker run` and `podman run`: labels from the start, and an
//! init if it is the server's own command.
//!
//! The second belt beside the Door, and the only one for a podman that has no service. What is added
//! stands right after the subcommand, where both commands take flags whatever follows, and where the
//! user's own flags come later and win.

use std::ffi::OsString;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::flags::{Flag, Flags, Table, Valued};
use super::invocation::{Invocation, Tool};
use crate::containers::Labels;
use crate::engine::label::{Pair, ReservedLabel, parts};
use crate::spec::ServerSpec;

/// The flags of `run` and `create` that stand alone, of docker and podman together.
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

/// The same of `podman pod create` and `podman network create`.
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

/// Where podman looks for an init, unless its configuration says otherwise.
const PODMAN_INITS: [&str; 4] = [
    "/usr/libexec/podman/catatonit",
    "/usr/local/libexec/podman/catatonit",
    "/usr/local/lib/podman/catatonit",
    "/usr/lib/podman/catatonit",
];

/// What a command makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Thing {
    Container,
    /// Podman's.
    Pod,
    Network,
}

/// A command that makes one thing that can have labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Creation {
    thing: Thing,
    /// Where flags can be added.
    at: usize,
    /// Where one is read after the user's own, if those ask for a revival that has to be undone.
    revival: Option<usize>,
    /// Whether an init can be asked for that is not yet.
    wants_init: bool,
    /// Whether it goes on by itself.
    is_detached: bool,
    /// The labels that the command sets itself, as `name=value`.
    labels: Vec<String>,
}

impl Creation {
    /// Whether the command makes such a thing; `None` also if that can't be told.
    pub(crate) fn of(spec: &ServerSpec) -> Option<Self> {
        let Invocation { tool, rest, .. } = Invocation::of(spec)?;
        let word = |n: usize| rest.get(n).and_then(|word| word.to_str()).unwrap_or_default();
        let (thing, words) = match (tool, word(0), word(1)) {
            (_, "run" | "create", _) => (Thing::Container, 1),
            (_, "container", "run" | "create") => (Thing::Container, 2),
            (Tool::Podman, "pod", "create") => (Thing::Pod, 2),
            (Tool::Podman, "network", "create") => (Thing::Network, 2),
            _ => return None,
        };
        let table = if thing == Thing::Container { &OPTIONS } else { &GROUP_OPTIONS };
        let options = rest.get(words..).and_then(|rest| Flags::read(rest, table))?;
        let label = |flag: &Flag<'_>| flag.value.map(|value| value.to_string_lossy().into_owned());
        let at = spec.args.len() - rest.len() + words;
        let is_revived = tool == Tool::Podman && asks_for_restarts(&options);
        Some(Self {
            thing,
            at,
            revival: is_revived.then_some(at + options.words),
            wants_init: thing == Thing::Container && wants_init(tool, &options),
            is_detached: word(words - 1) == "create"
                || options.is_on("d")
                || options.is_on("detach"),
            labels: options.all(&["label", "l"]).filter_map(label).collect(),
        })
    }

    pub(crate) fn thing(&self) -> Thing {
        self.thing
    }

    pub(crate) fn is_container(&self) -> bool {
        self.thing == Thing::Container
    }

    /// Whether the command sets no label that only we may set. Its own would count, as they come later.
    pub(crate) fn check_labels(&self, ours: &Labels) -> Result<(), ReservedLabel> {
        self.labels.iter().try_for_each(|label| {
            let (name, value) = parts(label);
            ours.check(name, value)
        })
    }

    /// Adds labels, and an init if there is none, and changes nothing else.
    pub(crate) fn stamp(&self, spec: &mut ServerSpec, labels: &Labels) {
        self.add(spec, &labels.pairs(), self.wants_init);
    }

    /// The same without an init, and with a label of this very call.
    pub(crate) fn mark(&self, spec: &mut ServerSpec, labels: &Labels, call: Option<Pair>) {
        let pairs: Vec<Pair> = labels.pairs().into_iter().chain(call).collect();
        self.add(spec, &pairs, false);
    }

    fn add(&self, spec: &mut ServerSpec, labels: &[Pair], init: bool) {
        if let Some(end) = self.revival {
            spec.args.insert(end, "--restart=no".into());
        }
        let label = |(name, value): &Pair| format!("--label={name}={value}").into();
        let mut added: Vec<OsString> = labels.iter().map(label).collect();
        added.extend(init.then(|| "--init".into()));
        spec.args.splice(self.at..self.at, added);
    }
}

/// Whether the container that this command has made goes on by itself; `None` if it has made none.
pub(crate) fn detaches(words: &[String]) -> Option<bool> {
    let (program, args) = words.split_first()?;
    let spec = ServerSpec {
        name: String::new(),
        program: program.into(),
        args: args.iter().map(Into::into).collect(),
        env: Vec::new(),
        cwd: None,
    };
    Creation::of(&spec).filter(Creation::is_container).map(|creation| creation.is_detached)
}

/// Takes the flags out of a docker or podman command by which it would go to its engine itself, past
/// the environment. All others stay, in their order.
pub(crate) fn forget_engine(spec: &mut ServerSpec) {
    let Some(Invocation { tool, globals, rest }) = Invocation::of(spec) else { return };
    if globals.last(tool.engine_flags()).is_none() {
        return;
    }
    let others = globals.given.iter().filter(|flag| !tool.engine_flags().contains(&flag.name));
    let words = others.map(Flag::word).chain(rest.iter().cloned()).collect();
    spec.args = words;
}

/// The program, if it is the podman command.
pub(crate) fn podman_program(spec: &ServerSpec) -> Option<&Path> {
    let program = Path::new(&spec.program);
    Some(program).filter(|program| program.file_name().is_some_and(|name| name == "podman"))
}

/// The words before the subcommand of a docker or podman command.
pub(crate) fn global_words(spec: &ServerSpec) -> &[OsString] {
    let words = Invocation::of(spec).map_or(0, |found| found.globals.words);
    spec.args.get(..words).unwrap_or_default()
}

/// Whether a podman command asks a service: this one, or any in the same environment.
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

/// Podman refuses an init that would not be the first process of its namespace, and has none if its
/// package was installed alone.
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

/// What the command itself would refuse is left to that.
fn asks_for_restarts(options: &Flags<'_>) -> bool {
    let policy = options.last(&["restart"]).and_then(|flag| flag.value?.to_str());
    let policy = policy.unwrap_or_default().split(':').next().unwrap_or_default();
    ["always", "on-failure", "unless-stopped"].contains(&policy)
}

#[cfg(test)]
mod tests;
