//! Where an instance is.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::identity::Identity;

/// Where an instance is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Whereabouts {
    /// On this machine.
    Process {
        /// The parent of all that it causes.
        guardian: Identity,
        /// The server itself.
        server: Identity,
    },
    /// Elsewhere: a remote server, or whatever else its backend starts.
    Elsewhere {
        /// For people to see.
        place: String,
    },
}

impl Whereabouts {
    /// The guardian that stays with it as long as anything is left, if it is on this machine.
    pub fn guardian(&self) -> Option<Identity> {
        match self {
            Self::Process { guardian, .. } => Some(*guardian),
            Self::Elsewhere { .. } => None,
        }
    }

    /// The server's own process, if it is on this machine.
    pub fn server(&self) -> Option<Identity> {
        match self {
            Self::Process { server, .. } => Some(*server),
            Self::Elsewhere { .. } => None,
        }
    }

    /// Where it is, if that is not on this machine.
    pub fn place(&self) -> Option<&str> {
        match self {
            Self::Process { .. } => None,
            Self::Elsewhere { place } => Some(place),
        }
    }
}

impl fmt::Display for Whereabouts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process { server, .. } => write!(f, "process {}", server.pid),
            Self::Elsewhere { place } => f.write_str(place),
        }
    }
}
