//! The backend for processes of this machine: a guardian for each instance.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::backend::{Backend, Evidence, Hold, StartOrder};
use crate::cgroup::{Control, Leaf, is_limit_of};
use crate::fence::{Fence, Outcome, StartError, Terms};
use crate::guardian::ROLE;
use crate::id::InstanceId;
use crate::ledger::{Entry, Intent};
use crate::proctable::Process;
use crate::remains::{self, Remains};
use crate::spec::ServerSpec;

/// Starts servers as processes, each below a guardian of its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Processes;

impl Backend for Processes {
    fn intent(&self, instance: InstanceId, spec: &ServerSpec, terms: &Terms) -> Intent {
        let leaf = Leaf::place(instance).ok();
        // A limit that has no place is refused by the start.
        let controls = Control::places(&terms.resources, instance, leaf.as_deref());
        let controls = controls.unwrap_or_default();
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Intent {
            instance,
            name: spec.name.clone(),
            program: spec.program.to_string_lossy().into_owned(),
            leaf,
            cgroups: controls.iter().filter_map(Control::cgroup).map(Path::to_owned).collect(),
            at: u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX),
        }
    }

    fn start(&self, order: StartOrder, terms: &Terms) -> Result<Box<dyn Hold>, StartError> {
        Ok(Box::new(Fence::start(order, terms)?))
    }

    fn evidence(&self, open: &[Entry]) -> BTreeMap<InstanceId, Evidence> {
        let (guarded, unclear): (Vec<&Entry>, Vec<&Entry>) =
            open.iter().partition(|entry| known_guardian(entry).is_some());
        // The whole process table is looked at only if somebody may be in it that nobody guards.
        let ids: Vec<InstanceId> = unclear.iter().map(|entry| entry.intent.instance).collect();
        let (mut guardians, mut marked) =
            if ids.is_empty() { Default::default() } else { (guardians(), remains::marked(&ids)) };
        let evidence = |entry: &Entry| {
            let id = entry.intent.instance;
            let evidence = Evidence {
                entry: entry.clone(),
                guardian: known_guardian(entry).or_else(|| guardians.remove(&id)),
                leaf: leaf_of(entry).is_some(),
                processes: marked.remove(&id).unwrap_or_default(),
            };
            (id, evidence)
        };
        guarded.into_iter().chain(unclear).map(evidence).collect()
    }

    fn end(&self, abandoned: &[Entry], limit: Duration) -> BTreeMap<InstanceId, Outcome> {
        let remains = |entry: &Entry| Remains {
            id: entry.intent.instance,
            leaf: leaf_of(entry),
            cgroups: limits_of(entry),
        };
        let all: Vec<Remains> = abandoned.iter().map(remains).collect();
        if all.is_empty() { BTreeMap::new() } else { remains::end(&all, limit) }
    }
}

/// The leaf that the ledger names, if it is there and one that we would have made.
pub(crate) fn leaf_of(entry: &Entry) -> Option<Leaf> {
    Leaf::find(entry.intent.leaf.as_deref()?, entry.intent.instance)
}

fn limits_of(entry: &Entry) -> Vec<PathBuf> {
    let cgroups = entry.intent.cgroups.iter();
    cgroups.filter(|path| is_limit_of(entry.intent.instance, path)).cloned().collect()
}

/// The guardian that the ledger names, if it lives. Nothing is ever done to it but to leave it alone.
fn known_guardian(entry: &Entry) -> Option<Process> {
    let guardian = entry.start.as_ref()?.whereabouts.guardian();
    guardian.is_alive().then(|| Process::with_pid(guardian.pid)).flatten()
}

/// The guardians that run, by the instance on their command line.
pub(crate) fn guardians() -> BTreeMap<InstanceId, Process> {
    let instance = |words: &[String]| words.get(1)?.parse().ok();
    let guardians = Process::called(ROLE).into_iter();
    guardians.filter_map(|(process, words)| Some((instance(&words)?, process))).collect()
}
