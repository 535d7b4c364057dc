//! Entries of clients: read as servers, and rewritten to start ostler.
//!
//! All clients' keys are read in the same way, because most clients understand each other's. Only variables and the
//! way of writing depend on the client. A key that would make the server another one and has no counterpart in ostler makes
//! the entry [`Unusable`]; all others stay in the client's file.

mod keys;
mod read;
mod rewrite;

use std::collections::BTreeSet;

pub(crate) use keys::{ENVS, HEADERS, OWNED};
pub(crate) use read::{Context, command_words, read};
pub(crate) use rewrite::{connect, new_entry, wrap};

use crate::own::Own;
use crate::server::Server;
use crate::variables::Foreign;

/// What an entry is.
#[derive(Clone, Debug)]
pub enum Found {
    /// A server.
    Server(Box<Taken>),
    /// A server that `ostler run` starts.
    Wrapped(Box<Taken>),
    /// An entry that starts ostler in another way.
    Own(Own),
    /// No server: part of the client, or provided by an extension.
    BuiltIn,
    /// A server that ostler can't run as its client does.
    Unusable(Unusable),
}

/// A server as it was read.
#[derive(Clone, Debug)]
pub struct Taken {
    /// The server.
    pub server: Server,
    /// Variables that the client fills in or passes on, each with whether a default replaces it.
    pub(crate) names: BTreeSet<(String, bool)>,
    /// Keys that concern only the client.
    pub unused: Vec<String>,
}

/// Why ostler can't run a server as its client does.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// It has a placeholder of the client.
    #[error(transparent)]
    Foreign(#[from] Foreign),
    /// It has a setting without a counterpart.
    #[error("ostler has no counterpart of `{0}`")]
    Setting(String),
    /// A value has the wrong type.
    #[error("`{0}` is not {1}")]
    Type(&'static str, &'static str),
    /// It is written with an anchor, an alias or a tag.
    #[error("`{0}` is written with an anchor, an alias or a tag")]
    Opaque(String),
    /// A relative path without a directory that it begins at.
    #[error("`envFile` is a relative path")]
    RelativeFile,
    /// ostler.json can't hold it.
    #[error("{0}")]
    Refused(String),
    /// It runs inside `ostler run` with options.
    #[error("it has options of `ostler run`, which link does not take over")]
    Options,
    /// It starts no program.
    #[error("a remote server starts no program")]
    Remote,
    /// Its client does not use it.
    #[error("it is disabled")]
    Disabled,
    /// The client may have logged in there.
    #[error(
        "its client may be logged in there; `ostler import` takes it over, then run `ostler login`"
    )]
    Login,
}
