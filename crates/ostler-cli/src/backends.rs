//! Blocking access to the backends, for commands without an async runtime.

use std::collections::BTreeMap;
use std::io;

use ostler::backend::{Backends, Evidence, Part, Role};
use ostler::sweep::DeadOwner;
use ostler::{InstanceId, Limits, Outcome, Places, Process, View};
use tokio::runtime::{Builder, Runtime};

#[derive(Debug)]
pub(crate) struct BlockingBackends {
    backends: Backends,
    runtime: Runtime,
}

impl BlockingBackends {
    pub(crate) fn new() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        Ok(Self { backends: Backends::default(), runtime })
    }

    /// All instances on record that are not settled.
    pub(crate) fn snapshot(&self, places: &Places) -> Vec<View> {
        self.runtime.block_on(self.backends.snapshot(places))
    }

    /// Evidence of what is left of a dead owner's instances.
    pub(crate) fn list(&self, dead: &DeadOwner) -> BTreeMap<InstanceId, Evidence> {
        self.runtime.block_on(self.backends.list(dead))
    }

    /// Ends what a dead owner left.
    pub(crate) fn settle(&self, dead: DeadOwner) -> BTreeMap<InstanceId, Outcome> {
        self.runtime.block_on(self.backends.settle(dead, Limits::default().proof))
    }

    /// Ends what all dead owners left.
    pub(crate) fn sweep(&self, places: &Places) {
        self.runtime.block_on(self.backends.sweep(places, Limits::default().proof));
    }

    /// Asks the guardian of an instance to end it. Returns false if there is no guardian.
    pub(crate) fn ask(&self, view: &View) -> bool {
        self.backends.ask(&view.entry)
    }

    /// The part of an instance that people call `what`. Its owner is always a process.
    pub(crate) fn part(&self, view: &View, what: &str) -> Option<Part> {
        self.backends.part(&view.entry, what).or_else(|| {
            let process = Process::with_pid(what.parse().ok()?)?;
            let is_owner = process.identity() == view.owner.process;
            is_owner.then(|| Part::process(&process, Role::Owner))
        })
    }
}
