//! systemd's manager of the user's services, through `systemctl`.

use std::collections::BTreeMap;
use std::io;
use std::process::{Command, Stdio};

/// Why the service manager did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ManagerError {
    #[error(
        "this machine has no systemctl; use `ostler connect`, which starts a gateway if none runs"
    )]
    Missing,
    #[error("cannot run systemctl")]
    Failed(#[source] io::Error),
    #[error(
        "systemd's user manager does not answer ({0}); log in as this user, or let it run without a login: `loginctl enable-linger`"
    )]
    Unreachable(String),
    #[error("`systemctl --user {words}` failed: {said}")]
    Refused { words: String, said: String },
}

/// Fails unless the manager answers.
pub(super) fn reach() -> Result<(), ManagerError> {
    match systemctl(&["show", "--property=Version"]) {
        Err(ManagerError::Refused { said, .. }) => Err(ManagerError::Unreachable(said)),
        answered => answered.map(drop),
    }
}

/// Runs `systemctl --user` with these words; returns what it prints.
pub(super) fn systemctl(words: &[&str]) -> Result<String, ManagerError> {
    let mut command = Command::new("systemctl");
    command.args(["--user", "--no-pager", "--no-ask-password"]).args(words).stdin(Stdio::null());
    let output = command.output().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => ManagerError::Missing,
        _ => ManagerError::Failed(error),
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
    Err(ManagerError::Refused { words: words.join(" "), said })
}

/// Properties of a unit; those of an unknown unit are empty or say so.
pub(super) fn properties(
    unit: &str,
    names: &[&str],
) -> Result<BTreeMap<String, String>, ManagerError> {
    let said = systemctl(&["show", unit, &format!("--property={}", names.join(","))])?;
    let pairs = said.lines().filter_map(|line| line.split_once('='));
    Ok(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}
