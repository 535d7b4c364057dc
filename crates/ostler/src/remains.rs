//! Kills what is left of instances whose guardian is dead.
//!
//! Without the guardian there is no subreaper, so the process tree is lost. Two traces remain: the leaf, if the
//! instance had one, and the instance's mark in the environment of its processes. The leaf is killed and proves by
//! `populated 0` that it is empty. Marked processes are killed one by one until two scans of the process table in a
//! row find none; that alone is no proof, because a process can have cleared its environment.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::cgroup::{Leaf, Watch, remove_tree};
use crate::id::{INSTANCE_VARIABLE, InstanceId};
use crate::outcome::{Outcome, Proof, Residue};
use crate::proctable::Process;

/// Delay between two scans of the process table; long enough for a fork in progress to appear.
const BETWEEN_SCANS: Duration = Duration::from_millis(5);

/// An instance whose guardian is dead.
#[derive(Debug)]
pub(crate) struct Remains {
    pub(crate) id: InstanceId,
    pub(crate) leaf: Option<Leaf>,
    /// Further cgroups that may exist, for resource limits.
    pub(crate) cgroups: Vec<PathBuf>,
}

/// Kills the processes in the leaves and those that carry the marks, within `limit`.
pub(crate) fn end(all: &[Remains], limit: Duration) -> BTreeMap<InstanceId, Outcome> {
    let deadline = Instant::now() + limit;
    // Kills all leaves before it waits for any.
    for leaf in all.iter().filter_map(|one| one.leaf.as_ref()) {
        // If this fails, the leaf does not become empty below.
        let _ = leaf.kill();
    }
    let leaves: Vec<Emptied> = all.iter().map(|one| empty(one.leaf.as_ref(), deadline)).collect();
    let ids: Vec<InstanceId> = all.iter().map(|one| one.id).collect();
    let mut left = end_marked(&ids, deadline);
    remove(all.iter().flat_map(|one| &one.cgroups).collect(), deadline);
    let outcome = |(one, leaf)| (one, outcome_of(leaf, left.remove(&one).unwrap_or_default()));
    ids.into_iter().zip(leaves).map(outcome).collect()
}

fn outcome_of(leaf: Emptied, mut marked: Vec<Process>) -> Outcome {
    match leaf {
        Emptied::Yes if marked.is_empty() => Outcome::Gone(Proof::EmptyLeaf),
        Emptied::NoLeaf if marked.is_empty() => Outcome::Unverified(Residue::Unwatched),
        Emptied::Yes | Emptied::NoLeaf => Outcome::Unverified(Residue::Processes(marked)),
        Emptied::No(inside) => {
            let known: Vec<i32> = marked.iter().map(|process| process.pid).collect();
            marked.extend(inside.into_iter().filter(|process| !known.contains(&process.pid)));
            Outcome::Unverified(Residue::Processes(marked))
        }
    }
}

/// The processes that carry the mark of one of these instances, by instance.
pub(crate) fn marked(ids: &[InstanceId]) -> BTreeMap<InstanceId, Vec<Process>> {
    let mut found: BTreeMap<InstanceId, Vec<Process>> = BTreeMap::new();
    for (process, value) in Process::carrying(INSTANCE_VARIABLE) {
        if let Some(id) = value.parse().ok().filter(|id| ids.contains(id)) {
            found.entry(id).or_default().push(process);
        }
    }
    found
}

/// Removes cgroups. Retries until the deadline, because a process that was just killed may still be inside.
fn remove(mut cgroups: Vec<&PathBuf>, deadline: Instant) {
    loop {
        cgroups.retain(|cgroup| remove_tree(cgroup).is_err());
        if cgroups.is_empty() || Instant::now() > deadline {
            return;
        }
        std::thread::sleep(BETWEEN_SCANS);
    }
}

/// Whether a leaf is empty.
enum Emptied {
    Yes,
    /// It still holds these processes, as far as they are visible.
    No(Vec<Process>),
    NoLeaf,
}

fn empty(leaf: Option<&Leaf>, deadline: Instant) -> Emptied {
    let Some(leaf) = leaf else { return Emptied::NoLeaf };
    match wait_and_remove(leaf, deadline) {
        Ok(()) => Emptied::Yes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Emptied::NoLeaf,
        Err(_) => Emptied::No(leaf.pids().into_iter().filter_map(Process::with_pid).collect()),
    }
}

fn wait_and_remove(leaf: &Leaf, deadline: Instant) -> io::Result<()> {
    let watch = leaf.watch()?;
    while watch.populated()? {
        wait_for_change(&watch, deadline)?;
    }
    leaf.remove()
}

fn wait_for_change(watch: &Watch, deadline: Instant) -> io::Result<()> {
    let left = deadline.saturating_duration_since(Instant::now());
    let limit = Timespec::try_from(left).map_err(io::Error::other)?;
    match poll(&mut [PollFd::new(watch, PollFlags::PRI)], Some(&limit)) {
        Ok(0) => Err(io::ErrorKind::TimedOut.into()),
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Sends SIGKILL to all marked processes until two scans in a row find none. Returns those that are left at the
/// deadline.
pub(crate) fn end_marked(
    ids: &[InstanceId],
    deadline: Instant,
) -> BTreeMap<InstanceId, Vec<Process>> {
    let mut empty_scans = 0;
    loop {
        let found = marked(ids);
        empty_scans = if found.is_empty() { empty_scans + 1 } else { 0 };
        if empty_scans == 2 || Instant::now() > deadline {
            return found;
        }
        for process in found.values().flatten() {
            // A process that can't be signalled is found again until the deadline.
            let _ = process.kill();
        }
        std::thread::sleep(BETWEEN_SCANS);
    }
}
