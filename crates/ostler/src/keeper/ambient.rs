//! Variables that an instance has from the client that causes its start, and that tell no two runs apart.
//!
//! `PATH`, `TERM` and the like differ from terminal to terminal, and some clients change `PATH` with every run. They are no
//! part of a server's fingerprint, so that clients which differ in nothing else share an instance. What the fingerprint
//! has of `PATH` is the file that the command is found at.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use crate::outcome::Refusal;
use crate::spec::ServerSpec;

/// Which variables of a server's environment are ambient.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ambient {
    /// Their names.
    pub names: BTreeSet<OsString>,
    /// The file that the command is found at, if one of them is `PATH` and the command is looked up there.
    pub program: Option<PathBuf>,
    /// Where the command was looked for in vain, for people.
    pub searched: Option<String>,
}

/// What a caller brings along for the instances that are started on its behalf.
pub trait Surroundings: fmt::Debug + Send + Sync {
    /// The values of the ambient variables of a server; `None` leaves them as they are configured.
    fn of(&self, server: &str) -> Option<Vec<(OsString, OsString)>>;
}

impl Ambient {
    /// What counts of a spec: its ambient variables don't, but for the file that they lead to.
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

    /// Why a server was not started, and where its program was looked for if there is none.
    pub(super) fn explain(&self, refusal: &Refusal) -> String {
        match (refusal, &self.searched) {
            (Refusal::NotFound { .. }, Some(searched)) => format!("{refusal}: {searched}"),
            _ => refusal.to_string(),
        }
    }

    /// Puts these values in the place of the ambient variables of a spec.
    pub(super) fn replace(&self, spec: &mut ServerSpec, values: Vec<(OsString, OsString)>) {
        let given: BTreeSet<&OsString> = values.iter().map(|(name, _)| name).collect();
        spec.env.retain(|(name, _)| !self.names.contains(name) && !given.contains(name));
        spec.env.extend(values);
    }
}
