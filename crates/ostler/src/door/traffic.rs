//! What is under way between a server and its engine.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::denial::Denial;
use super::note::Note;
use super::route::Route;
use crate::engine::Endpoint;

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
    /// Processes that were readied in containers and may run.
    execs: RefCell<BTreeSet<String>>,
    record: NotePad,
}

/// Where the note is, if it has been written.
#[derive(Debug)]
struct NotePad {
    path: PathBuf,
    endpoint: Endpoint,
    /// Creates of somebody before, which may still be under way.
    lost: usize,
    /// It is on the disk.
    is_durable: Cell<bool>,
}

/// What a note has to survive.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Durability {
    Processes,
    /// Containers do, too.
    PowerFailure,
}

/// What somebody has left who served the same Door.
#[derive(Clone, Debug, Default)]
pub(crate) struct Before {
    /// How many creates nobody counts any more.
    pub(crate) creates: usize,
    /// Commands that may run.
    pub(crate) execs: Vec<String>,
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
    pub(super) fn new(note: PathBuf, endpoint: Endpoint, before: Before) -> Self {
        let Before { creates: lost, execs } = before;
        Self {
            is_closing: Cell::new(false),
            creates: Arc::default(),
            containers: Cell::new(0),
            execs: RefCell::new(execs.into_iter().collect()),
            record: NotePad { path: note, endpoint, lost, is_durable: Cell::new(false) },
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
        let noted = self.record.note(creates, self.execs(), Durability::PowerFailure);
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
        let _ = self.record.note(creates, self.execs(), Durability::Processes);
    }
}

impl Flight {
    /// A container has been made.
    pub(super) fn deliver(self) {
        self.traffic.containers.update(|containers| containers + 1);
        self.land();
    }

    /// The engine has answered, or can't answer any more.
    pub(super) fn land(self) {
        let Self { traffic } = self;
        traffic.creates.fetch_sub(1, Ordering::Release);
        traffic.note();
    }
}

impl NotePad {
    fn note(&self, creates: usize, execs: Vec<String>, what: Durability) -> io::Result<()> {
        let creates = creates + self.lost;
        let note = Note { endpoint: self.endpoint.clone(), creates, execs };
        if what == Durability::Processes || self.is_durable.get() {
            return note.write(&self.path);
        }
        note.write_durably(&self.path)?;
        self.is_durable.set(true);
        Ok(())
    }
}
