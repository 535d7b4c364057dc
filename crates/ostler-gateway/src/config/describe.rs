//! Descriptions of servers for `ostler check`.

use std::path::{Path, PathBuf};

use ostler::keeper::{Server, Target};
use ostler::mask::masked_command;
use serde::Serialize;

use super::doubts;
use super::entry::{Launch, Reach, ServerEntry};
use super::resolve::{Disabled, resolve};
use super::words::{Hold, Share};
use crate::environment::Environment;

/// How a server would run for one client, without secrets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Description {
    /// Name of the server.
    pub name: String,
    /// Why the client can't use it.
    pub disabled: Option<String>,
    /// Command with unfilled variables and masked secrets.
    pub command: Vec<String>,
    /// Origin of the URL; path and query are left out, because they may hold a secret.
    pub url: Option<String>,
    /// Names of the headers sent to it.
    pub headers: Vec<String>,
    /// Names of its environment variables.
    pub env: Vec<String>,
    /// Working directory.
    pub cwd: Option<PathBuf>,
    /// Which sessions share an instance.
    pub share: Share,
    /// Required containment; `None` for a remote server.
    pub containment: Option<Hold>,
    /// Reasons why the server would not start on this machine.
    pub warnings: Vec<String>,
}

/// Describes a server for a client with this environment and working directory.
pub fn describe(entry: &ServerEntry, environment: &Environment, cwd: &Path) -> Description {
    let resolved = resolve(entry, environment, cwd).map(|resolved| resolved.server);
    let launch = match &entry.reach {
        Reach::Process(launch) => Some(launch),
        Reach::Remote(_) => None,
    };
    let remote = match &entry.reach {
        Reach::Process(_) => None,
        Reach::Remote(remote) => Some(remote),
    };
    Description {
        name: entry.name.clone(),
        command: launch.map(command).unwrap_or_default(),
        url: resolved.as_ref().ok().and_then(place),
        headers: remote.map(|it| it.headers.keys().cloned().collect()).unwrap_or_default(),
        env: resolved.as_ref().map(variables).unwrap_or_default(),
        cwd: resolved.as_ref().ok().and_then(|server| server.spec()?.cwd.clone()),
        share: entry.share,
        containment: launch.map(|launch| launch.containment),
        warnings: resolved
            .as_ref()
            .ok()
            .and_then(Server::spec)
            .map(doubts::of_spec)
            .unwrap_or_default(),
        disabled: resolved.err().map(|reason| why(&reason)),
    }
}

fn command(launch: &Launch) -> Vec<String> {
    let words = std::iter::once(&launch.command).chain(&launch.args);
    masked_command(&words.map(ToString::to_string).collect::<Vec<_>>())
}

/// The command as one line, with unfilled variables and masked secrets. Words that a shell would split or change are
/// quoted.
pub(super) fn command_line(launch: &Launch) -> String {
    let is_special = |c: char| c.is_whitespace() || "'\"\\`;|&<>()*?!#~".contains(c);
    let quoted = |word: String| {
        let is_plain = !word.is_empty() && !word.contains(is_special);
        if is_plain { word } else { format!("'{}'", word.replace('\'', r"'\''")) }
    };
    command(launch).into_iter().map(quoted).collect::<Vec<_>>().join(" ")
}

fn place(server: &Server) -> Option<String> {
    match &server.target {
        Target::Reach(remote) => Some(remote.place()),
        _ => None,
    }
}

fn variables(server: &Server) -> Vec<String> {
    let env = server.spec().into_iter().flat_map(|spec| &spec.env);
    env.map(|(name, _)| name.to_string_lossy().into_owned()).collect()
}

/// The reason followed by its causes.
fn why(reason: &Disabled) -> String {
    let mut text = reason.to_string();
    let mut cause = std::error::Error::source(reason);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
