//! What a server would run as, for people to see.

use std::path::{Path, PathBuf};

use ostler::keeper::{Server, Target};
use serde::Serialize;

use super::doubts;
use super::entry::{Launch, Reach, ServerEntry};
use super::mask::masked;
use super::resolve::{Disabled, resolve};
use super::words::{Hold, Share};
use crate::environment::Environment;

/// What a server would run as for somebody, without secrets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Description {
    /// What people call it.
    pub name: String,
    /// Why it is not there, if it is not.
    pub disabled: Option<String>,
    /// Its command, with its variables by their names, and a mask over what might be a secret.
    pub command: Vec<String>,
    /// Where it is reached, without path and query, which may hold a secret.
    pub url: Option<String>,
    /// The headers that are sent to it, without their values.
    pub headers: Vec<String>,
    /// The names of its variables.
    pub env: Vec<String>,
    /// Its working directory.
    pub cwd: Option<PathBuf>,
    /// Who may use one instance.
    pub share: Share,
    /// How firmly it is held.
    pub containment: Option<Hold>,
    /// Why it would not start here.
    pub warnings: Vec<String>,
}

/// Describes a server for somebody with these variables who works in this directory.
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
    masked(&words.map(ToString::to_string).collect::<Vec<_>>())
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

/// The reason with all that caused it.
fn why(reason: &Disabled) -> String {
    let mut text = reason.to_string();
    let mut cause = std::error::Error::source(reason);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
