//! All that one server causes: asking it, ending it, and knowing that it is gone.

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, getpid, wait};

use super::line::Listener;
use super::root::Root;
use crate::cgroup::{Control, Leaf, Watch};
use crate::outcome::Proof;
use crate::proctable::Process;
use crate::resources::Excess;

/// The processes below this guardian.
#[derive(Debug)]
pub(super) struct Estate {
    root: Root,
    leaf: Option<(Leaf, Watch)>,
    controls: Vec<Control>,
    /// Asked when nothing is left, before the cgroups that know it are removed.
    excesses: Vec<Excess>,
    /// The server's own wait status, once it has one.
    status: Option<i32>,
    /// The kernel has said that this guardian has no child left, but for its porter.
    childless: bool,
    /// A child of this guardian that the server has not caused.
    porter: Option<Pid>,
}

impl Estate {
    pub(super) fn new(root: Root, leaf: Option<(Leaf, Watch)>, controls: Vec<Control>) -> Self {
        let (excesses, status, childless, porter) = (Vec::new(), None, false, None);
        Self { root, leaf, controls, excesses, status, childless, porter }
    }

    /// Where an init tells of the server's end, which is no end of a child of ours.
    pub(super) fn line(&self) -> Option<&Listener> {
        self.root.line()
    }

    pub(super) fn watch(&self) -> Option<&Watch> {
        self.leaf.as_ref().map(|(_, watch)| watch)
    }

    /// Buries every child that has ended. Returns the server's status when that was among them.
    pub(super) fn reap(&mut self) -> Option<i32> {
        let before = self.status;
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == self.root.pid() => {
                    // An init that was killed had its server killed with it, and by the same.
                    let told = self.status.or_else(|| self.root.hear());
                    self.status = told.or(Some(status.as_raw()));
                }
                Ok(Some((pid, _))) if Some(pid) == self.porter => self.porter = None,
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => break self.childless = self.has_only_a_porter(),
                Err(_) => break self.childless = true,
            }
        }
        self.status = self.status.or_else(|| self.root.hear());
        self.status.filter(|_| before.is_none())
    }

    /// Takes a child aside that the server has not caused, and that outlives it.
    pub(super) fn employ(&mut self, porter: Pid) {
        self.porter = Some(porter);
    }

    /// As long as it has not been buried.
    pub(super) fn porter(&self) -> Option<Pid> {
        self.porter
    }

    /// Who is our child when the look begins stays so until we bury it. So if anything of the server
    /// is there, the look shows at least one.
    fn has_only_a_porter(&self) -> bool {
        self.porter.is_some_and(|porter| {
            Process::children_of(getpid().as_raw_pid()) == [porter.as_raw_pid()]
        })
    }

    /// KILL to everything that is there at this moment. Called again until nothing is.
    pub(super) fn end(&self) {
        if let Some((leaf, _)) = &self.leaf {
            // Its failure leaves the processes to the walk below, or to the residue.
            let _ = leaf.kill();
        }
        for process in self.remains() {
            let _ = process.signal(Signal::KILL);
        }
    }

    /// TERM to each process below this guardian, never to a group: a group's number may mean
    /// strangers once its leader is buried. A stopped process is woken, for it could not heed TERM.
    pub(super) fn ask(&self) {
        for process in self.remains() {
            // Who is gone needs no signal; who may not be signalled will show up as residue.
            if matches!(process.signal(Signal::TERM), Ok(true)) {
                let _ = process.signal(Signal::CONT);
            }
        }
    }

    /// Everything below this guardian but its porter and what that has started: nothing can leave it
    /// but by ending.
    pub(super) fn remains(&self) -> Vec<Process> {
        let porter = self.porter.map(Pid::as_raw_pid);
        Process::descendants_but(getpid().as_raw_pid(), |process| Some(process.pid) == porter)
    }

    /// Why we may say that nothing is left, if nothing is.
    pub(super) fn proof(&mut self) -> Option<Proof> {
        // Always looked at: a change that nobody has read would wake the next poll at once.
        let empty =
            self.leaf.as_ref().is_none_or(|(_, watch)| matches!(watch.populated(), Ok(false)));
        if !empty || !self.childless {
            return None;
        }
        if self.excesses.is_empty() {
            self.excesses = self.controls.iter().filter_map(Control::excess).collect();
        }
        // One that is gone already counts as removed, so that this can be repeated.
        let removed = self.controls.iter().all(|control| control.remove().is_ok());
        match &self.leaf {
            None => removed.then_some(Proof::NoChild),
            Some((leaf, _)) => {
                (removed && leaf.remove().is_ok()).then_some(Proof::NoChildAndEmptyLeaf)
            }
        }
    }

    /// What the limits have done to it.
    pub(super) fn excesses(&self) -> &[Excess] {
        &self.excesses
    }
}
