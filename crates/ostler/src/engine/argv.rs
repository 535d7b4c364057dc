//! Servers whose own command is `docker run` or `podman run`: labels and an init from the start.
//!
//! The second belt beside the Door, and the only one for a podman that has no service. What is added
//! stands right after the subcommand, where both commands take flags whatever follows, and where the
//! user's own flags come later and win.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use super::flags::{Flag, Flags, Table, Valued};
use super::invocation::{Invocation, Tool};
use super::label::Labels;
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

/// A command that makes one container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ContainerRun {
    /// Where flags can be added.
    at: usize,
    /// Whether an init can be asked for that is not yet.
    wants_init: bool,
    /// The names of labels that the user has set.
    labels: Vec<Vec<u8>>,
}

impl ContainerRun {
    /// Whether the server's command makes a container; `None` also if that can't be told.
    pub(crate) fn of(spec: &ServerSpec) -> Option<Self> {
        let Invocation { tool, rest, .. } = Invocation::of(spec)?;
        let word = |n: usize| rest.get(n).and_then(|word| word.to_str()).unwrap_or_default();
        let words = match (word(0), word(1)) {
            ("run" | "create", _) => 1,
            ("container", "run" | "create") => 2,
            _ => return None,
        };
        let options = rest.get(words..).and_then(|rest| Flags::read(rest, &OPTIONS))?;
        let label = |flag: &Flag<'_>| flag.value.map(label_name);
        Some(Self {
            at: spec.args.len() - rest.len() + words,
            wants_init: wants_init(tool, &options),
            labels: options.all(&["label", "l"]).filter_map(label).collect(),
        })
    }

    /// Adds what is missing and changes nothing else.
    pub(crate) fn stamp(&self, spec: &mut ServerSpec, labels: &Labels) {
        let missing = labels.pairs().into_iter();
        let missing = missing.filter(|(name, _)| !self.labels.iter().any(|l| l == name.as_bytes()));
        let mut added: Vec<OsString> =
            missing.map(|(name, value)| format!("--label={name}={value}").into()).collect();
        added.extend(self.wants_init.then(|| "--init".into()));
        spec.args.splice(self.at..self.at, added);
    }
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

/// Podman refuses an init that would not be the first process of its namespace.
fn wants_init(tool: Tool, options: &Flags<'_>) -> bool {
    let is_refused = tool == Tool::Podman && options.last(&["pid", "pod"]).is_some();
    options.last(&["init"]).is_none() && !is_refused
}

fn label_name(label: &OsStr) -> Vec<u8> {
    label.as_bytes().split(|byte| *byte == b'=').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests;
