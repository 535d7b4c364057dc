//! The ways by which an instance can create containers.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Endpoint;

/// The ways by which an instance can create containers: Doors to engines, and a wrapped podman command.
///
/// No field may be skipped in serialization: guardians receive it in postcard, which has no field names.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ways {
    /// Doors to container engines.
    #[serde(default)]
    pub engines: Vec<EngineDoor>,
    /// Directory for the podman wrapper, if the server gets one.
    #[serde(default)]
    pub shelf: Option<PathBuf>,
}

impl Ways {
    pub(crate) fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// A Door: the engine's address, and the socket that the server uses in its place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EngineDoor {
    /// Address of the engine.
    pub endpoint: Endpoint,
    /// Path of the Door's socket.
    pub socket: PathBuf,
}
