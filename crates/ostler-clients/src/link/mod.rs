//! Putting ostler into the files of a client, and taking it out again.
//!
//! [`plan`] and [`plan_undo`] only read, and return what would be written. [`Plan::apply`] and [`Undo::apply`] write. Before a
//! file is replaced its content goes into a private backup, and a `Record` notes which entries were edited, so that the
//! original can be brought back: byte for byte if the file is as ostler left it, and entry by entry otherwise.

mod apply;
mod plan;
mod record;
mod undo;

use std::path::PathBuf;

pub use apply::{ApplyError, Backups};
pub use plan::{Plan, Request, plan};
pub use undo::{Undo, plan_undo};

use crate::configuration::Taking;
use crate::entry::Unusable;
use crate::format::EditError;
use crate::source::SourceError;

/// How ostler is put into a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Each entry connects to its server, under its own key.
    Each,
    /// One entry connects to all servers.
    One,
    /// Each entry runs its own command inside `ostler run`.
    Wrap,
}

/// What happens to an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Name of the entry in the client's file.
    pub name: String,
    /// What happens to it.
    pub action: Action,
}

/// What happens to an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// It connects to the server with this name.
    Connect(String, Taking),
    /// It is replaced by the entry for all servers; its server has this name.
    Fold(String, Taking),
    /// It is new, and connects to all servers.
    Add,
    /// It runs inside `ostler run`.
    Wrap,
    /// It starts ostler already.
    Already,
    /// It stays as it is.
    Left(Unusable),
    /// It becomes what it was.
    Restored,
    /// It is removed: `link` added it.
    Removed,
    /// It can't be brought back: there is no backup of it.
    Unknown,
}

/// Why a client can't be linked or unlinked.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// A file of it can't be used.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A file of it can't be edited.
    #[error("cannot edit {}", path.display())]
    Edit {
        /// The file.
        path: PathBuf,
        /// Why.
        source: EditError,
    },
    /// The record of an earlier link can't be read.
    #[error("cannot read {}, the record of an earlier link: {reason}", path.display())]
    Record {
        /// The record.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}
