//! Terms of an instance: containment, limits, resources and access to container engines.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::containers::Engine;
use crate::level::Containment;
use crate::limits::Limits;
use crate::resources::Resources;

/// How an instance is contained, limited and stopped.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Terms {
    /// Requested containment level.
    pub containment: Containment,
    /// Time limits of stopping it.
    pub limits: Limits,
    /// The program to run as its guardian.
    pub guardian: GuardianProgram,
    /// Which descriptors the server inherits.
    pub descriptors: Descriptors,
    /// Resource limits.
    pub resources: Resources,
    /// The container engine whose containers belong to it.
    pub engine: Engine,
    /// Path of a [log](crate::logs) that its guardian writes its stderr to. The stderr that it was started with is not used
    /// then.
    pub log: Option<PathBuf>,
}

/// Which of the host's descriptors without close-on-exec the server inherits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Descriptors {
    /// None except stdin, stdout and stderr.
    #[default]
    StdioOnly,
    /// All, as without ostler.
    Inherited,
}

/// The program to run as a guardian.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum GuardianProgram {
    /// This program, which must call [`run_if_asked`](crate::guardian::run_if_asked) first in `main`.
    #[default]
    Myself,
    /// Another program that does so.
    At(PathBuf),
}
