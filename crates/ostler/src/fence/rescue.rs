//! What the owner does when a guardian was killed.

use std::io;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::outcome::{Outcome, Proof, Residue};
use crate::cgroup::{Leaf, Watch};
use crate::id::{INSTANCE_VARIABLE, InstanceId};
use crate::proctable::Process;

/// Between two looks at the process table, in which a process that is being forked can appear.
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

/// Ends what a killed guardian has left, within `limit`.
pub(super) fn end(id: InstanceId, leaf: Option<&Leaf>, limit: Duration) -> Outcome {
    let deadline = Instant::now() + limit;
    let emptied = leaf.is_some_and(|leaf| empty_leaf(leaf, deadline).is_ok());
    let remaining = end_carriers(id, deadline);
    match (emptied, remaining) {
        (true, None) => Outcome::Gone(Proof::EmptyLeaf),
        (false, None) => Outcome::Unverified(Residue::Unwatched),
        (_, Some(residue)) => Outcome::Unverified(residue),
    }
}

fn empty_leaf(leaf: &Leaf, deadline: Instant) -> io::Result<()> {
    let watch = leaf.watch()?;
    leaf.kill()?;
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

/// KILL to all that carries the mark, until two looks in a row find none.
fn end_carriers(id: InstanceId, deadline: Instant) -> Option<Residue> {
    let mark = id.to_string();
    let mut empty_looks = 0;
    loop {
        let found = Process::carrying(INSTANCE_VARIABLE, &mark);
        empty_looks = if found.is_empty() { empty_looks + 1 } else { 0 };
        if empty_looks == 2 {
            return None;
        }
        if Instant::now() > deadline {
            return Some(Residue::Processes(found)).filter(|_| empty_looks == 0);
        }
        for process in found {
            // Who can't be signalled is found again until the deadline.
            let _ = process.kill();
        }
        std::thread::sleep(BETWEEN_LOOKS);
    }
}
