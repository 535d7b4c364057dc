//! Stands in for the engine part in a program that was built without the feature `engine`.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;

use super::{Removal, remove_files};
use crate::containers::{Engine, EngineResidue, Labels, Unreachable, Ways};
use crate::fence::StartError;
use crate::id::{InstanceId, OwnerId};
use crate::ledger::{End, Intent};
use crate::level::Level;
use crate::notes::is_noted;
use crate::outcome::Outcome;
use crate::spec::ServerSpec;
use crate::terms::Terms;
use crate::wire::porter::PorterConfig;

/// The reason reported for containers that this program can't remove.
const NO_ENGINE_FEATURE: &str =
    "this program was built without ostler's feature 'engine'; run 'ostler reap'";

/// The exit code of a role that this program was built without.
const NOT_BUILT: i32 = 1;

/// Always empty.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) ways: Ways,
    pub(crate) unfollowed: Option<String>,
    pub(crate) no_door: Option<io::Error>,
}

impl Found {
    /// Refuses every server except those with `engine: off`.
    pub(crate) fn of(_: InstanceId, _: &ServerSpec, terms: &Terms) -> Result<Self, StartError> {
        match terms.engine {
            Engine::Off => Ok(Self::default()),
            engine => Err(StartError::WithoutEngine(engine)),
        }
    }

    #[expect(clippy::unused_self, reason = "the shape of a program with the engine part")]
    pub(crate) fn service(
        &self,
        _: (&Intent, OwnerId),
        _: &Path,
        _: &ServerSpec,
        _: &Terms,
    ) -> Option<PorterConfig> {
        None
    }

    #[expect(clippy::unused_self, reason = "the shape of a program with the engine part")]
    pub(crate) fn lead(&self, _: &mut ServerSpec, _: &Labels) {}
}

/// Always false: only the engine part can parse the server's command.
#[cfg(feature = "keeper")]
pub(crate) fn makes_container(_: &ServerSpec) -> bool {
    false
}

/// Fails. Only the guardian of another program can start this role, and that guardian sees the exit.
pub(crate) fn run_porter() -> i32 {
    NOT_BUILT
}

/// Fails. Only the wrapper of another program can start this role.
pub(crate) fn run_podman(_: &OsStr, _: impl Iterator<Item = OsString>) -> i32 {
    NOT_BUILT
}

/// Reports everything that a note names as residue: a program with the engine part has to remove it.
pub(crate) fn end<'w>(
    book: &Path,
    instances: impl IntoIterator<Item = (InstanceId, &'w Ways, Level)>,
    outcomes: &mut BTreeMap<InstanceId, Outcome>,
    _: &Removal,
) {
    for (id, ways, _) in instances {
        let Some(outcome) = outcomes.remove(&id) else { continue };
        let cleared = if is_noted(book, id, ways) { Err(unreachable(ways)) } else { Ok(()) };
        let outcome = outcome.with_engine(cleared);
        if End::from(&outcome).is_settled() {
            remove_files(ways, id);
        }
        outcomes.insert(id, outcome);
    }
}

fn unreachable(ways: &Ways) -> EngineResidue {
    let endpoint = ways.engines.first().map_or("podman".to_owned(), |way| way.endpoint.to_string());
    EngineResidue::Unreachable(Unreachable { endpoint, reason: NO_ENGINE_FEATURE.to_owned() })
}
