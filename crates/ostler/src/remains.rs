//! Ending what is left of instances that have no guardian any more.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::cgroup::{Leaf, Watch, remove_tree};
use crate::id::{INSTANCE_VARIABLE, InstanceId};
use crate::outcome::{Outcome, Proof, Residue};
use crate::proctable::Process;

/// Between two looks at the process table, in which a process that is being forked can appear.
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

/// An instance whose guardian is dead.
#[derive(Debug)]
pub(crate) struct Remains {
    pub(crate) id: InstanceId,
    /// Where its leaf is, if it has one.
    pub(crate) leaf: Option<Leaf>,
    /// The cgroups that may have been made to limit it.
    pub(crate) cgroups: Vec<PathBuf>,
}

/// Ends all of them, within `limit`: what is in their leaves, and what carries their marks.
pub(crate) fn end(all: &[Remains], limit: Duration) -> BTreeMap<InstanceId, Outcome> {
    let deadline = Instant::now() + limit;
    // All are killed before any is waited for.
    for leaf in all.iter().filter_map(|one| one.leaf.as_ref()) {
        // A leaf that can't be killed is not proven empty below.
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

/// The processes that carry the mark of one of these instances, with their instance.
pub(crate) fn marked(ids: &[InstanceId]) -> BTreeMap<InstanceId, Vec<Process>> {
    let mut found: BTreeMap<InstanceId, Vec<Process>> = BTreeMap::new();
    for (process, value) in Process::carrying(INSTANCE_VARIABLE) {
        if let Some(id) = value.parse().ok().filter(|id| ids.contains(id)) {
            found.entry(id).or_default().push(process);
        }
    }
    found
}

/// Whoever was killed a moment ago may still be inside. What stays inside is told as residue.
fn remove(mut cgroups: Vec<&PathBuf>, deadline: Instant) {
    loop {
        cgroups.retain(|cgroup| remove_tree(cgroup).is_err());
        if cgroups.is_empty() || Instant::now() > deadline {
            return;
        }
        std::thread::sleep(BETWEEN_LOOKS);
    }
}

/// What became of a leaf.
enum Emptied {
    Yes,
    /// These are inside, as far as they show.
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

/// KILL to all that carries a mark, until two looks in a row find none. Returns who is left.
pub(crate) fn end_marked(
    ids: &[InstanceId],
    deadline: Instant,
) -> BTreeMap<InstanceId, Vec<Process>> {
    let mut empty_looks = 0;
    loop {
        let found = marked(ids);
        empty_looks = if found.is_empty() { empty_looks + 1 } else { 0 };
        if empty_looks == 2 || Instant::now() > deadline {
            return found;
        }
        for process in found.values().flatten() {
            // Who can't be signalled is found again until the deadline.
            let _ = process.kill();
        }
        std::thread::sleep(BETWEEN_LOOKS);
    }
}
