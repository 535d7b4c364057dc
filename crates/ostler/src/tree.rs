//! Ending a process tree that no guardian holds: what another host has left behind.
//!
//! The ladder is the guardian's: TERM to every process of the tree, then KILL until none is left. Only processes are
//! signalled that were given or seen below those, each by pidfd and only while its pid and start time are the same. The tree is
//! looked at again before every step, because a process that loses its parent is found only through the parent it had.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::ladder::{Climb, Ladder, Step};
use crate::proctable::{Identity, Process};

/// Between two looks at the process table.
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// What became of a process tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TreeEnd {
    /// The processes that are gone, those that were given among them.
    pub ended: Vec<Process>,
    /// The processes that are still there after KILL.
    pub left: Vec<Process>,
}

/// Ends the processes of a tree and everything below them: TERM first, then KILL after [`Ladder::ask`]. A process that is
/// still there `proof` after KILL is reported as left. One that is gone, or whose pid belongs to another process now, is not
/// touched.
pub fn end_tree(processes: &[Process], ladder: Ladder, proof: Duration) -> TreeEnd {
    let mut tree = Tree::of(processes);
    let mut climb = Climb::begin(ladder, Step::Asking, Instant::now());
    let mut empty_looks = 0;
    tree.grow();
    tree.alive().for_each(ask);
    loop {
        let fresh = tree.grow();
        match climb.step() {
            Step::Closing | Step::Asking => fresh.iter().for_each(ask),
            Step::Ending => tree.alive().for_each(kill),
        }
        empty_looks = if tree.alive().next().is_none() { empty_looks + 1 } else { 0 };
        let now = Instant::now();
        let is_over = climb.step() == Step::Ending && now > climb.since() + proof;
        if empty_looks == 2 || is_over {
            return tree.end();
        }
        climb.advance(now);
        std::thread::sleep(BETWEEN_LOOKS);
    }
}

/// The processes that were given or seen below those, by identity.
struct Tree(BTreeMap<Identity, Process>);

impl Tree {
    fn of(processes: &[Process]) -> Self {
        let there = processes.iter().filter(|process| process.is_still_there());
        Self(there.map(|process| (process.identity(), process.clone())).collect())
    }

    /// Adds what has appeared below the known processes, and returns it.
    fn grow(&mut self) -> Vec<Process> {
        let mut fresh: Vec<Process> = Vec::new();
        let members: Vec<Process> = self.alive().cloned().collect();
        for member in members {
            for below in Process::descendants_of(member.pid) {
                // The parent's pid may have passed to a stranger during the walk.
                if member.is_still_there()
                    && self.0.insert(below.identity(), below.clone()).is_none()
                {
                    fresh.push(below);
                }
            }
        }
        fresh
    }

    fn alive(&self) -> impl Iterator<Item = &Process> {
        self.0.values().filter(|process| process.identity().is_alive())
    }

    fn end(self) -> TreeEnd {
        let (left, ended) = self.0.into_values().partition(|process| process.identity().is_alive());
        TreeEnd { ended, left }
    }
}

/// TERM, and CONT because a stopped process could not heed it. A process that can't be signalled is reported as left.
fn ask(process: &Process) {
    if matches!(process.signal(Signal::TERM), Ok(true)) {
        let _ = process.signal(Signal::CONT);
    }
}

fn kill(process: &Process) {
    let _ = process.kill();
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    const PROOF: Duration = Duration::from_secs(30);

    fn ladder(ask: u64) -> Ladder {
        Ladder { close: Duration::ZERO, ask: Duration::from_millis(ask) }
    }

    fn start(script: &str) -> (Child, Process) {
        let child = Command::new("sh").args(["-c", script]).spawn().unwrap();
        let process = Process::with_pid(child.id().cast_signed()).unwrap();
        (child, process)
    }

    fn wait_for_children(root: &Process, count: usize) -> Vec<Process> {
        let deadline = Instant::now() + PROOF;
        loop {
            let below = Process::descendants_of(root.pid);
            if below.len() == count {
                return below;
            }
            assert!(Instant::now() < deadline, "{below:?}");
            std::thread::sleep(BETWEEN_LOOKS);
        }
    }

    #[test]
    fn a_tree_ends_with_processes_that_ignore_term_or_left_its_session() {
        let (mut child, root) =
            start("trap '' TERM; setsid sleep 600 & sleep 600 & wait; wait; wait");
        let below = wait_for_children(&root, 2);
        let end = end_tree(&[root], ladder(100), PROOF);
        assert_eq!(end.left, []);
        assert_eq!(end.ended.len(), 3, "{end:?}");
        assert!(below.iter().all(|process| !process.identity().is_alive()));
        child.wait().unwrap();
    }

    #[test]
    fn l07_a_recycled_pid_ends_nothing() {
        let (mut child, root) = start("exec sleep 600");
        let stale = Process { start: root.start - 1, ..root.clone() };
        assert_eq!(end_tree(&[stale], ladder(10), PROOF), TreeEnd::default());
        assert!(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
