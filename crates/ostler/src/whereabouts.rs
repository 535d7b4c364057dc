//! Where an instance runs.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::identity::Identity;

/// Where an instance runs: its processes, or its address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Whereabouts {
    /// As a process of this machine.
    Process {
        /// Its guardian.
        guardian: Identity,
        /// The server itself.
        server: Identity,
    },
    /// Not as a process of this machine: a remote server, or an instance of another backend.
    Elsewhere {
        /// Address for display, without secrets.
        place: String,
    },
}

impl Whereabouts {
    /// Its guardian, if it runs on this machine.
    pub fn guardian(&self) -> Option<Identity> {
        match self {
            Self::Process { guardian, .. } => Some(*guardian),
            Self::Elsewhere { .. } => None,
        }
    }

    /// The server's process, if it runs on this machine.
    pub fn server(&self) -> Option<Identity> {
        match self {
            Self::Process { server, .. } => Some(*server),
            Self::Elsewhere { .. } => None,
        }
    }

    /// Its address, if it does not run on this machine.
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
