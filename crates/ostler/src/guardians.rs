//! Identifies the guardian of an instance, and rejects impostors.
//!
//! A guardian's command line names the instance it guards, but any process can choose such a command line. So a
//! command line is only a claim. It counts if the ledger names the same process, or names none because the owner
//! died before it could; and only if the claimant is outside of the fence that it claims to guard: neither it nor any
//! of its ancestors carries the instance's mark or is in the instance's leaf. The executable proves nothing: an
//! upgrade may have replaced the file, and a host that embeds the library has guardians of its own.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;

use crate::cgroup::{Leaf, is_in_cgroup};
use crate::id::{INSTANCE_VARIABLE, InstanceId};
use crate::ledger::Entry;
use crate::proctable::Process;
use crate::roles::{GUARDIAN, PORTER};

/// The guardian that the ledger names, if it is alive.
pub(crate) fn recorded(entry: &Entry) -> Option<Process> {
    let named = entry.start.as_ref()?.whereabouts.guardian()?;
    let process =
        Process::with_pid(named.pid).filter(|it| it.identity() == named && !it.is_zombie())?;
    let id = entry.intent.instance;
    (claim_of(&process.words()) == Some(id) && is_outside(&process, id)).then_some(process)
}

/// Processes that claim to guard an instance whose ledger entry names no guardian.
#[derive(Debug, Default)]
pub(crate) struct Claimants(BTreeMap<InstanceId, Vec<Process>>);

impl Claimants {
    /// Scans the process table if one of these entries names no guardian.
    pub(crate) fn of<'e>(mut entries: impl Iterator<Item = &'e Entry>) -> Self {
        let mut claimants = Self::default();
        if entries.any(|entry| entry.start.is_none()) {
            for (process, words) in Process::called(GUARDIAN) {
                if let Some(id) = claim_of(&words) {
                    claimants.0.entry(id).or_default().push(process);
                }
            }
        }
        claimants
    }

    /// The living guardian of an instance, whether or not the ledger names it.
    pub(crate) fn guardian(&self, entry: &Entry) -> Option<Process> {
        if entry.start.is_some() {
            return recorded(entry);
        }
        let id = entry.intent.instance;
        self.0.get(&id)?.iter().find(|process| is_outside(process, id)).cloned()
    }
}

/// The instances that a process belongs to, the innermost first.
///
/// The process may have lost the mark in its environment, as clients clean the environment of their servers. So this
/// also checks its ancestors, for marks and for guardians, which adopt orphans.
pub fn instances_around(pid: i32) -> Vec<InstanceId> {
    let Some(process) = Process::with_pid(pid) else { return Vec::new() };
    let mark = |process: &Process| process.variable(INSTANCE_VARIABLE)?.parse().ok();
    let above = process.ancestors().flat_map(|above| [mark(&above), claim_of(&above.words())]);
    let mut around = Vec::new();
    for id in std::iter::once(mark(&process)).chain(above).flatten() {
        if !around.contains(&id) {
            around.push(id);
        }
    }
    around
}

/// Whether this child of a guardian is its porter rather than an orphan that the guardian adopted.
pub(crate) fn is_porter(process: &Process, guardian: &Process, id: InstanceId) -> bool {
    process.name == PORTER
        && process.parent() == guardian.pid
        && is_free_of(process, id)
        && is_same_program(process, guardian)
}

/// The instance that a command line claims to guard. Its words are the role, the owner's pid and the instance id.
fn claim_of(words: &[String]) -> Option<InstanceId> {
    match words {
        [role, _, id, ..] if role == GUARDIAN => id.parse().ok(),
        _ => None,
    }
}

fn is_outside(process: &Process, id: InstanceId) -> bool {
    is_free_of(process, id) && process.ancestors().all(|above| is_free_of(&above, id))
}

/// Whether a process carries neither the instance's mark nor is in its leaf. A process that can't be read belongs to
/// another user, and so to no instance of this one.
fn is_free_of(process: &Process, id: InstanceId) -> bool {
    process.variable(INSTANCE_VARIABLE).is_none_or(|mark| mark != id.to_string())
        && !is_in_cgroup(process.pid, &Leaf::name(id))
}

fn is_same_program(one: &Process, other: &Process) -> bool {
    let program = |process: &Process| {
        let found = fs::metadata(format!("/proc/{}/exe", process.pid)).ok()?;
        Some((found.dev(), found.ino()))
    };
    program(one).is_some_and(|found| Some(found) == program(other))
}
