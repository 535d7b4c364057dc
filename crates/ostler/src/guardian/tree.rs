//! The server's process tree: reaping, signalling, and the proof that it is empty.
//!
//! The guardian is a subreaper, so every process that the server causes is its descendant, and becomes its child when
//! it loses its parent. The tree is empty when `wait` reports that the guardian has no child (except its porter) and,
//! if there is a leaf, the leaf's `cgroup.events` says `populated 0`. Both must hold.

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, getpid, wait};

use super::init_channel::InitReceiver;
use super::root::Root;
use crate::cgroup::{Control, Leaf, Watch};
use crate::outcome::Proof;
use crate::proctable::Process;
use crate::resources::Excess;

#[derive(Debug)]
pub(super) struct ProcessTree {
    root: Root,
    leaf: Option<(Leaf, Watch)>,
    controls: Vec<Control>,
    /// Limits that the server hit. Read when the tree is empty, before the cgroups with the counters are removed.
    excesses: Vec<Excess>,
    /// The server's own wait status, once it has exited.
    status: Option<i32>,
    /// Whether the last `wait` found no child except the porter.
    childless: bool,
    /// A child of this guardian that is not part of the server's tree.
    porter: Option<Pid>,
}

impl ProcessTree {
    pub(super) fn new(root: Root, leaf: Option<(Leaf, Watch)>, controls: Vec<Control>) -> Self {
        let (excesses, status, childless, porter) = (Vec::new(), None, false, None);
        Self { root, leaf, controls, excesses, status, childless, porter }
    }

    /// The channel on which an init reports the server's exit; that server is not our child.
    pub(super) fn init_channel(&self) -> Option<&InitReceiver> {
        self.root.init_channel()
    }

    pub(super) fn watch(&self) -> Option<&Watch> {
        self.leaf.as_ref().map(|(_, watch)| watch)
    }

    /// Reaps every child that has exited. Returns the server's wait status if it exited since the last call.
    pub(super) fn reap(&mut self) -> Option<i32> {
        let before = self.status;
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == self.root.pid() => {
                    // The server of an init that was killed died with it, so the init's status stands for both.
                    let told = self.status.or_else(|| self.root.exit_status());
                    self.status = told.or(Some(status.as_raw()));
                }
                Ok(Some((pid, _))) if Some(pid) == self.porter => self.porter = None,
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => break self.childless = self.has_only_the_porter(),
                Err(_) => break self.childless = true,
            }
        }
        self.status = self.status.or_else(|| self.root.exit_status());
        self.status.filter(|_| before.is_none())
    }

    /// Registers the porter, a child that must outlive the server.
    pub(super) fn set_porter(&mut self, porter: Pid) {
        self.porter = Some(porter);
    }

    /// The porter, until it is reaped.
    pub(super) fn porter(&self) -> Option<Pid> {
        self.porter
    }

    /// Whether the porter is the only child.
    ///
    /// A child stays our child until we reap it, so the list can't miss the last process of the server.
    fn has_only_the_porter(&self) -> bool {
        self.porter.is_some_and(|porter| {
            Process::children_of(getpid().as_raw_pid()) == [porter.as_raw_pid()]
        })
    }

    /// Sends SIGKILL to every process that exists now. The caller repeats it until the tree is empty.
    pub(super) fn kill(&self) {
        if let Some((leaf, _)) = &self.leaf {
            // If this fails, the loop below kills the processes, or they are reported as residue.
            let _ = leaf.kill();
        }
        for process in self.survivors() {
            let _ = process.signal(Signal::KILL);
        }
    }

    /// Sends SIGTERM to each process of the tree, and SIGCONT, because a stopped process can't handle SIGTERM.
    ///
    /// Never to a process group: the group's number can be recycled once its leader is reaped.
    pub(super) fn terminate(&self) {
        for process in self.survivors() {
            // A process that we may not signal shows up as residue later.
            if matches!(process.signal(Signal::TERM), Ok(true)) {
                let _ = process.signal(Signal::CONT);
            }
        }
    }

    /// All descendants of this guardian except its porter and the porter's own. A process leaves this set only by
    /// exiting.
    pub(super) fn survivors(&self) -> Vec<Process> {
        let porter = self.porter.map(Pid::as_raw_pid);
        Process::descendants_but(getpid().as_raw_pid(), |process| Some(process.pid) == porter)
    }

    /// The proof that the tree is empty, or `None` if it is not. Removes the cgroups first.
    pub(super) fn proof(&mut self) -> Option<Proof> {
        // Read in any case: an unread change of `cgroup.events` would wake the next poll at once.
        let empty =
            self.leaf.as_ref().is_none_or(|(_, watch)| matches!(watch.populated(), Ok(false)));
        if !empty || !self.childless {
            return None;
        }
        if self.excesses.is_empty() {
            self.excesses = self.controls.iter().filter_map(Control::excess).collect();
        }
        // A cgroup that is gone already counts as removed, so this can be repeated.
        let removed = self.controls.iter().all(|control| control.remove().is_ok());
        match &self.leaf {
            None => removed.then_some(Proof::NoChild),
            Some((leaf, _)) => {
                (removed && leaf.remove().is_ok()).then_some(Proof::NoChildAndEmptyLeaf)
            }
        }
    }

    pub(super) fn excesses(&self) -> &[Excess] {
        &self.excesses
    }
}
