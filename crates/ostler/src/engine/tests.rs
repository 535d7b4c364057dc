//! Removal, from a fake engine that misbehaves and from real ones that are killed.

mod engine;
mod fake;
mod proof;

use std::path::Path;
use std::time::Duration;

use super::claim::{Claim, Cleared, Creates, News, Times};
use super::clear::clear_blocking;
use super::label;
use super::proof::CreatedIds;
use crate::containers::{Endpoint, EngineResidue, RemovedContainer};
use crate::id::InstanceId;

/// Far more than any of this takes.
const PATIENCE: Duration = Duration::from_mins(1);
/// Of a real engine on a loaded machine, and yet soon over where one hangs on purpose.
const TIMES: Times =
    Times { grace: Duration::from_millis(300), call: Duration::from_secs(5), limit: PATIENCE };
const GONE: Cleared = Cleared::Gone { kept_networks: Vec::new() };

/// One removal.
struct Removal {
    endpoint: Endpoint,
    claim: Claim,
    times: Times,
}

impl Removal {
    fn from(socket: &Path, instance: InstanceId) -> Self {
        let claim = Claim { instance, made: CreatedIds::default(), creates: Creates::None };
        Self { endpoint: Endpoint::Unix(socket.to_owned()), claim, times: TIMES }
    }

    fn run(&self) -> Cleared {
        self.run_telling().0
    }

    /// With the containers that it tells of.
    fn run_telling(&self) -> (Cleared, Vec<RemovedContainer>) {
        let mut told = Vec::new();
        let mut hear = |news| {
            if let News::Removed(one) = news {
                told.push(one);
            }
        };
        let cleared = clear_blocking(&self.endpoint, &self.claim, &self.times, &mut hear);
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
