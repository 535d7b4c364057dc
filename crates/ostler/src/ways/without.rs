//! No way to containers: this program was built without the engine part.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;

use super::{Removal, demolish};
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

/// Why no engine is asked.
const UNASKED: &str = "this program was built without ostler's feature 'engine'; run 'ostler reap'";

/// The exit code of a role that this program was built without.
const NOT_BUILT: i32 = 1;

/// Nothing.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) ways: Ways,
    pub(crate) unfollowed: Option<String>,
    pub(crate) no_door: Option<io::Error>,
}

impl Found {
    /// Refuses all servers but those with `engine: off`.
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

/// Nobody reads the server's command for that.
#[cfg(feature = "keeper")]
pub(crate) fn makes_container(_: &ServerSpec) -> bool {
    false
}

/// Only a guardian of another program can have meant this one, and that guardian sees it end.
pub(crate) fn run_porter() -> i32 {
    NOT_BUILT
}

/// Only a server of another program can have meant this one.
pub(crate) fn run_podman(_: &OsStr, _: impl Iterator<Item = OsString>) -> i32 {
    NOT_BUILT
}

/// What a note tells of stays on record: another program has to ask the engine.
pub(crate) fn end<'w>(
    book: &Path,
    instances: impl IntoIterator<Item = (InstanceId, &'w Ways, Level)>,
    outcomes: &mut BTreeMap<InstanceId, Outcome>,
    _: &Removal,
) {
    for (id, ways, _) in instances {
        let Some(outcome) = outcomes.remove(&id) else { continue };
        let cleared = if is_noted(book, id, ways) { Err(unasked(ways)) } else { Ok(()) };
        let outcome = outcome.with_engine(cleared);
        if End::from(&outcome).is_settled() {
            demolish(ways, id);
        }
        outcomes.insert(id, outcome);
    }
}

fn unasked(ways: &Ways) -> EngineResidue {
    let endpoint = ways.engines.first().map_or("podman".to_owned(), |way| way.endpoint.to_string());
    EngineResidue::Unreachable(Unreachable { endpoint, reason: UNASKED.to_owned() })
}
