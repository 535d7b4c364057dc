//! The audit of this machine: what other hosts have left, what runs more often than it must, and what ostler can do here.
//!
//! [`scan`](scan::scan) reads the process table into a value, [`leftovers`] and [`advice`] make finds of it without touching
//! anything, [`mod@containers`] asks engines. An orphan is a find only if two looks half a second apart both show it: a server
//! whose host has just ended may be about to leave by itself. A false find is worse than a missed one, so every rule needs
//! a combination of facts, and each find lists those that it rests on.

mod advice;
mod containers;
mod diagnostics;
mod find;
mod hosts;
mod leftovers;
mod listening;
mod machine;
mod names;
mod report;
mod scan;
mod streams;
mod table;
mod tools;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::time::Duration;

use ostler::foreign::{ForeignContainer, FoundEngine};
use ostler::{Endpoint, Places, State, View};

use crate::backends::BlockingBackends;
use crate::render;

pub(crate) use find::{Certainty, Find, FindId, Kind};
pub(crate) use hosts::running;
pub(crate) use machine::Machine;
pub(crate) use names::is_wrapper;
pub(crate) use report::{Report, describe};

use containers::containers;

/// Delay between two scans of the process table.
const BETWEEN_LOOKS: Duration = Duration::from_millis(500);
/// Timeout for a container engine's version.
const ENGINE_LIMIT: Duration = Duration::from_secs(2);

/// Result of an audit, with the containers needed to act on it.
#[derive(Debug, Default)]
pub(crate) struct Audit {
    pub(crate) finds: Vec<Find>,
    /// What could not be judged, and why.
    pub(crate) notes: Vec<String>,
    /// Containers among the finds.
    pub(crate) containers: Vec<(FindId, Endpoint, ForeignContainer)>,
}

impl Audit {
    /// Audits all processes and containers without changing anything.
    pub(crate) fn take(engines: &[FoundEngine]) -> Self {
        let own = std::process::id().cast_signed();
        let mut table = scan::scan();
        scan::measure(&mut table);
        let mut left = leftovers::leftovers(&table, own);
        if !left.is_empty() {
            std::thread::sleep(BETWEEN_LOOKS);
            let again = leftovers::leftovers(&scan::scan(), own);
            left.retain(|find| again.iter().any(|other| other.id == find.id));
        }
        let pids: BTreeSet<i32> =
            left.iter().flat_map(|find| &find.processes).map(|process| process.pid).collect();
        let found = containers(&table, engines);
        let mut audit = Self { notes: found.notes, ..Self::default() };
        for (find, endpoint, container) in found.finds {
            audit.containers.push((find.id.clone(), endpoint, container));
            audit.finds.push(find);
        }
        audit.finds.extend(left);
        audit.finds.extend(advice::advice(&table, &pids));
        audit.sort();
        audit
    }

    /// Adds the orphaned instances in the ledgers of ostler's own dead owners.
    pub(crate) fn add_dead_owners(&mut self, backends: &BlockingBackends, places: &Places) {
        let views = backends.snapshot(places);
        let dead = views.iter().filter(|view| view.state == State::Orphaned);
        self.finds.extend(dead.map(dead_owner));
        self.sort();
    }

    /// Sorts leftovers before advice, and each group by memory, largest first.
    fn sort(&mut self) {
        self.finds.sort_by(|one, other| {
            let key = |find: &Find| (!find.kind.is_left_over(), std::cmp::Reverse(find.memory));
            key(one).cmp(&key(other)).then_with(|| one.id.cmp(&other.id))
        });
    }
}

fn dead_owner(view: &View) -> Find {
    let owner = &view.owner;
    // Only process instances have this field.
    let processes = view.fields.get("processes").cloned().unwrap_or_default();
    Find {
        id: FindId::of_instance(&view.instance.to_string()),
        kind: Kind::DeadOwner,
        certainty: Certainty::Certain,
        server: view.name.clone(),
        command: view.program.clone(),
        host: Some("ostler".to_owned()),
        evidence: vec![
            format!(
                "its ledger names the owner {} ({}), which is dead",
                owner.process.pid, owner.program
            ),
            "its guardian is dead as well".to_owned(),
        ],
        age: render::milliseconds_since(view.started_at),
        memory: view.rss,
        processes: serde_json::from_value(processes).unwrap_or_default(),
        container: None,
        action: Some("ostler reap --yes".to_owned()),
    }
}

/// The container engines of this user.
pub(crate) fn engines() -> Vec<FoundEngine> {
    ostler::foreign::engines(ENGINE_LIMIT)
}
