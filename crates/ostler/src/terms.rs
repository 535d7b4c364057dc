//! On what terms an instance is held.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::containers::Engine;
use crate::level::Containment;
use crate::limits::Limits;
use crate::resources::Resources;

/// On what terms an instance is held.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Terms {
    /// The level of containment.
    pub containment: Containment,
    /// How long its end may take.
    pub limits: Limits,
    /// What to execute as its guardian.
    pub guardian: GuardianProgram,
    /// What the server gets beside its stdio.
    pub descriptors: Descriptors,
    /// How much of the machine it may use.
    pub resources: Resources,
    /// Whose containers belong to it.
    pub engine: Engine,
}

/// What becomes of descriptors that a host has open without close-on-exec.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Descriptors {
    /// The server gets its stdin, stdout and stderr and nothing else.
    #[default]
    StdioOnly,
    /// The server inherits them, as it would without a fence.
    Inherited,
}

/// What to execute as a guardian.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum GuardianProgram {
    /// This very program, which calls [`run_if_asked`](crate::guardian::run_if_asked) first.
    #[default]
    Myself,
    /// Another program that does.
    At(PathBuf),
}
