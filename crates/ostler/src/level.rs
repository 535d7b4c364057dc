//! Levels of containment.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A level of containment, the weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// The guardian alone, as subreaper of the server's process tree.
    Tree,
    /// The guardian, and a cgroup v2 leaf that holds the server's processes even if the guardian is killed.
    Leaf,
    /// The guardian, and a PID namespace that the kernel kills with its init, so that no process outlives owner and
    /// guardian even if both are killed at once. Includes a leaf where one is available. The server sees other pids
    /// and a /proc of its own.
    Strict,
}

impl Level {
    const ALL: [(Level, &'static str); 3] =
        [(Level::Tree, "tree"), (Level::Leaf, "leaf"), (Level::Strict, "strict")];
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(level, _)| level == self).map_or("", |(_, name)| name);
        f.pad(name)
    }
}

/// Requested containment: the best level that the machine allows, with an optional minimum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Containment {
    /// The best level that neither moves the host to another cgroup nor changes what the server sees: leaf or tree,
    /// never strict.
    #[default]
    Auto,
    /// Refuse to start a server below this level.
    AtLeast(Level),
}

impl Containment {
    /// The level below which no server is started.
    pub(crate) fn minimum(self) -> Level {
        match self {
            Self::Auto => Level::Tree,
            Self::AtLeast(level) => level,
        }
    }
}

/// The text names no level of containment.
#[derive(Debug, thiserror::Error)]
#[error("unknown containment; choose auto, tree, leaf or strict")]
pub struct UnknownContainment;

impl FromStr for Containment {
    type Err = UnknownContainment;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        let known = Level::ALL.iter().find(|(_, name)| *name == text);
        known.map(|(level, _)| Self::AtLeast(*level)).ok_or(UnknownContainment)
    }
}
