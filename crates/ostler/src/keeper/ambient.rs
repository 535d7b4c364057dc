//! Ambient variables: environment variables that do not keep clients from sharing an instance.
//!
//! `PATH`, `TERM` and the like differ from terminal to terminal, and some clients change `PATH` with every run. They are
//! not part of a server's fingerprint, so clients that differ in nothing else share an instance. An instance gets their
//! values from the client whose request starts it. Of `PATH` the fingerprint contains only the resolved program file.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use super::cause::NotStarted;
use crate::outcome::Refusal;
use crate::spec::ServerSpec;

/// The ambient variables of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ambient {
    /// Names of the variables.
    pub names: BTreeSet<OsString>,
    /// The program file, if `PATH` is ambient and the command is looked up in it.
    pub program: Option<PathBuf>,
    /// The directories searched in vain for the command, as text for an error message.
    pub searched: Option<String>,
}

/// Ambient variables of a client, for the instances that are started on its behalf.
pub trait Surroundings: fmt::Debug + Send + Sync {
    /// The client's values for a server's ambient variables; `None` keeps the configured ones.
    fn of(&self, server: &str) -> Option<Vec<(OsString, OsString)>>;
}

impl Ambient {
    /// The part of a spec that its fingerprint covers: ambient variables are replaced by the program file.
    pub(super) fn essence(&self, spec: &ServerSpec) -> ServerSpec {
        let mut spec = spec.clone();
        spec.env.retain(|(name, _)| !self.names.contains(name));
        if let Some(program) = &self.program {
            spec.env.push(("PATH".into(), program.into()));
        }
        spec
    }

    /// The ambient variables of a spec.
    pub fn of(&self, spec: &ServerSpec) -> Vec<(OsString, OsString)> {
        spec.env.iter().filter(|(name, _)| self.names.contains(name)).cloned().collect()
    }

    /// Adds the directories searched to the refusal of a program that was not found.
    pub(super) fn explain(&self, refusal: Refusal) -> NotStarted {
        let is_searched = matches!(refusal, Refusal::NotFound { .. });
        NotStarted::Refused { refusal, searched: self.searched.clone().filter(|_| is_searched) }
    }

    /// Replaces the ambient variables of a spec by these values.
    pub(super) fn replace(&self, spec: &mut ServerSpec, values: Vec<(OsString, OsString)>) {
        let given: BTreeSet<&OsString> = values.iter().map(|(name, _)| name).collect();
        spec.env.retain(|(name, _)| !self.names.contains(name) && !given.contains(name));
        spec.env.extend(values);
    }
}
