//! How firmly an instance is held.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A level of containment, the weaker first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// The guardian alone: parent and subreaper of all that the server causes.
    Tree,
    /// The guardian, and a cgroup v2 leaf that also holds what has lost its parents.
    Leaf,
    /// The guardian, and a PID namespace that the kernel ends with its init, so that nothing
    /// outlives owner and guardian even if both are killed at once. A leaf as well, where one can
    /// be had. The server sees other pids and a /proc of its own.
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

/// What is asked for: the best that the machine allows, but never less than a minimum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Containment {
    /// The best that can be had without moving the host or changing what the server sees: a leaf
    /// or the tree, never strict.
    #[default]
    Auto,
    /// Refuse to start below this level.
    AtLeast(Level),
}

impl Containment {
    /// The level below which nothing is started.
    pub(crate) fn minimum(self) -> Level {
        match self {
            Self::Auto => Level::Tree,
            Self::AtLeast(level) => level,
        }
    }
}

/// Not a level of containment.
#[derive(Debug, thiserror::Error)]
#[error("no such level of containment; choose auto, tree, leaf or strict")]
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
