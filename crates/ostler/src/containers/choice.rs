//! The choice of container engine for a server.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The container engine whose containers ostler tracks for a server and removes with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Engine {
    /// The engine of the server's own command, if that is `docker` or `podman`; otherwise both.
    #[default]
    Auto,
    /// Only the engine that `docker` would use.
    Docker,
    /// Only podman, with or without a service.
    Podman,
    /// None. For servers whose job is to manage the user's own containers.
    Off,
}

impl Engine {
    const ALL: [(Engine, &'static str); 4] = [
        (Engine::Auto, "auto"),
        (Engine::Docker, "docker"),
        (Engine::Podman, "podman"),
        (Engine::Off, "off"),
    ];
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(engine, _)| engine == self).map_or("", |(_, name)| name);
        f.pad(name)
    }
}

/// The text names no choice of engine.
#[derive(Debug, thiserror::Error)]
#[error("unknown engine; choose auto, docker, podman or off")]
pub struct UnknownEngine;

impl FromStr for Engine {
    type Err = UnknownEngine;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.iter().find(|(_, name)| *name == text);
        known.map(|(engine, _)| *engine).ok_or(UnknownEngine)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_round_trips_through_text() {
        for (engine, name) in Engine::ALL {
            assert_eq!(engine.to_string(), name);
            assert_eq!(name.parse::<Engine>().unwrap(), engine);
        }
        assert!("Docker".parse::<Engine>().is_err());
    }
}
