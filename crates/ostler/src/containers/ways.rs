//! Which ways to containers an instance has.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Endpoint;

/// The ways of an instance to containers. It also goes to guardians, in a form that has no names: so
/// nothing of it is left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ways {
    /// Its ways to engines.
    #[serde(default)]
    pub engines: Vec<Passage>,
    /// The directory that may be made for a command of ours in the place of podman's.
    #[serde(default)]
    pub shelf: Option<PathBuf>,
}

impl Ways {
    pub(crate) fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// The way of an instance to a container engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Passage {
    /// The engine.
    pub endpoint: Endpoint,
    /// The socket that may be made in its place.
    pub socket: PathBuf,
}
