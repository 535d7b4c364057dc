//! What is under way between a server and its engine.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::denial::Denial;
use super::note::{Note, NotePad};
use super::route::Route;
use crate::engine::proof::Made;

/// More processes than that in other people's containers are not kept in mind.
const MOST_EXECS: usize = 4096;

/// Everything that a Door has to know of its past. One thread looks at it.
#[derive(Debug)]
pub(super) struct Traffic {
    is_closing: Cell<bool>,
    /// Creates that the engine has not answered. Only one thread counts; whoever clears looks.
    creates: Arc<AtomicUsize>,
    /// Containers that were made, and may have gone since.
    containers: Cell<usize>,
    /// Which they are, the newest of them.
    made: Made,
    /// Processes that were readied in containers and may run.
    execs: RefCell<BTreeSet<String>>,
    record: Record,
}

/// What is noted, and where.
#[derive(Debug)]
struct Record {
    pad: RefCell<NotePad>,
    /// Creates of somebody before, which may still be under way.
    lost: usize,
}

/// What somebody has left who served the same Door.
#[derive(Clone, Debug, Default)]
pub(crate) struct Before {
    /// How many creates nobody counts any more.
    pub(crate) creates: usize,
    /// Commands that may run.
    pub(crate) execs: Vec<String>,
    /// Containers that were made.
    pub(crate) made: Vec<String>,
}

/// A create that the engine has not answered. If nobody says that it has landed it stays under
/// way.
#[derive(Debug)]
#[must_use]
pub(super) struct Flight {
    traffic: Rc<Traffic>,
}

impl Traffic {
    /// `note` is where the note is, `before` what somebody has left who served the same Door.
    pub(super) fn new(note: PathBuf, before: Before) -> Self {
        let Before { creates: lost, execs, made } = before;
        Self {
            is_closing: Cell::new(false),
            creates: Arc::default(),
            containers: Cell::new(0),
            made: made.into(),
            execs: RefCell::new(execs.into_iter().collect()),
            record: Record { pad: RefCell::new(NotePad::new(note)), lost },
        }
    }

    /// From now on nothing is created or started.
    pub(super) fn close(&self) {
        self.is_closing.set(true);
    }

    /// How many creates are not answered, now and later.
    pub(super) fn creates(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.creates)
    }

    /// The containers that were made, now and later.
    pub(super) fn made(&self) -> Made {
        self.made.clone()
    }

    /// Processes that may run in containers that are not ours.
    pub(super) fn execs(&self) -> Vec<String> {
        self.execs.borrow().iter().cloned().collect()
    }

    /// Whether a request may be passed on at all.
    pub(super) fn admit(&self, route: &Route) -> Result<(), Denial> {
        match route {
            Route::Unmarkable(what) => Err(Denial::unmarkable(what)),
            Route::Create(..) | Route::Start | Route::Exec | Route::ExecStart(_)
                if self.is_closing.get() =>
            {
                Err(Denial::closing())
            }
            Route::Exec if self.execs.borrow().len() >= MOST_EXECS => {
                Err(Denial::execs(MOST_EXECS))
            }
            _ => Ok(()),
        }
    }

    /// How many containers there may be, with those that are being made.
    pub(super) fn containers(&self) -> usize {
        self.containers.get() + self.creates.load(Ordering::Relaxed)
    }

    /// So many the engine has listed.
    pub(super) fn counted(&self, containers: usize) {
        self.containers.set(containers);
    }

    /// A create is about to be passed on. It is on record before that.
    pub(super) fn begin(self: &Rc<Self>) -> Result<Flight, Denial> {
        // Its body has been waited for since it was admitted.
        if self.is_closing.get() {
            return Err(Denial::closing());
        }
        let creates = self.creates.load(Ordering::Relaxed) + 1;
        let noted = self.record.note(creates, self.execs(), self.made.list());
        noted.map_err(|error| Denial::no_record(&error))?;
        self.creates.store(creates, Ordering::Release);
        Ok(Flight { traffic: Rc::clone(self) })
    }

    /// An engine has readied a process.
    pub(super) fn readied(&self, exec: String) {
        self.execs.borrow_mut().insert(exec);
        self.note();
    }

    /// That process has ended.
    pub(super) fn ended(&self, exec: &str) {
        if self.execs.borrow_mut().remove(exec) {
            self.note();
        }
    }

    /// A note that says too much makes a sweep take longer, and one that can't be written at all is
    /// noticed by the next create.
    fn note(&self) {
        let creates = self.creates.load(Ordering::Relaxed);
        let _ = self.record.note(creates, self.execs(), self.made.list());
    }
}

impl Flight {
    /// A container has been made, and this is its id, if that could be read.
    pub(super) fn deliver(self, id: Option<String>) {
        self.traffic.containers.update(|containers| containers + 1);
        // Before the create is no longer counted: a container without a create under way has been noted.
        if let Some(id) = id {
            self.traffic.made.note(id);
        }
        self.land();
    }

    /// The engine has answered, or can't answer any more.
    pub(super) fn land(self) {
        let Self { traffic } = self;
        traffic.creates.fetch_sub(1, Ordering::Release);
        traffic.note();
    }
}

impl Record {
    fn note(&self, creates: usize, execs: Vec<String>, made: Vec<String>) -> io::Result<()> {
        let creates = creates + self.lost;
        self.pad.borrow_mut().write(&Note { creates, execs, made })
    }
}
