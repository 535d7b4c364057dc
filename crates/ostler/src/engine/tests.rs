//! Tests of the removal, with a misbehaving fake engine and with real engines that are killed.

mod engine;
mod fake;
mod proof;

use std::path::Path;
use std::time::Duration;

use super::claim::{Claim, ClearProgress, Cleared, PendingCreates, Times};
use super::clear::clear_blocking;
use super::label;
use super::proof::CreatedIds;
use crate::containers::{Endpoint, EngineResidue, RemovedContainer};
use crate::id::InstanceId;

/// Far longer than any of these tests takes.
const PATIENCE: Duration = Duration::from_mins(1);
/// Long enough for a real engine on a loaded machine, short enough for tests where an engine hangs on purpose.
const TIMES: Times =
    Times { grace: Duration::from_millis(300), call: Duration::from_secs(5), limit: PATIENCE };
const GONE: Cleared = Cleared::Gone { kept_networks: Vec::new() };

struct Removal {
    endpoint: Endpoint,
    claim: Claim,
    times: Times,
}

impl Removal {
    fn from(socket: &Path, instance: InstanceId) -> Self {
        let claim = Claim { instance, made: CreatedIds::default(), creates: PendingCreates::None };
        Self { endpoint: Endpoint::Unix(socket.to_owned()), claim, times: TIMES }
    }

    fn run(&self) -> Cleared {
        self.run_telling().0
    }

    /// Also returns the containers that were reported as removed.
    fn run_telling(&self) -> (Cleared, Vec<RemovedContainer>) {
        let mut told = Vec::new();
        let mut on_progress = |progress| {
            if let ClearProgress::Removed(one) = progress {
                told.push(one);
            }
        };
        let cleared = clear_blocking(&self.endpoint, &self.claim, &self.times, &mut on_progress);
        (cleared, told)
    }
}

fn names_left(cleared: Cleared) -> Vec<String> {
    match cleared {
        Cleared::Unverified(EngineResidue::Containers(left)) => {
            left.into_iter().map(|one| one.name).collect()
        }
        other => panic!("{other:?}"),
    }
}

fn unreachable_reason(cleared: Cleared) -> String {
    match cleared {
        Cleared::Unverified(EngineResidue::Unreachable(engine)) => engine.reason,
        other => panic!("{other:?}"),
    }
}
