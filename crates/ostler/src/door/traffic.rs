//! What a Door keeps track of: pending creates, created containers and exec sessions.
//!
//! Every change is written to the [note](super::note), so that a later porter or a sweep can go on from there. A
//! create is in the note before it is forwarded; everything else may be noted late, because a note that says too much
//! only makes a sweep take longer.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::denial::Denial;
use super::note::{Note, NoteFile};
use super::route::Route;
use crate::engine::proof::CreatedIds;

/// Most exec sessions that are tracked at a time.
const MOST_EXECS: usize = 4096;

/// State of a Door, used by one thread only, except for `creates` and `made`.
#[derive(Debug)]
pub(super) struct Traffic {
    is_closing: Cell<bool>,
    /// Number of creates that the engine has not responded to. Only the Door changes it; the clearing reads it.
    creates: Arc<AtomicUsize>,
    /// Upper bound of the number of containers: removals are not subtracted until the engine is asked again.
    containers: Cell<usize>,
    /// The newest created containers.
    made: CreatedIds,
    /// Exec sessions that were created and have not ended, as far as the Door knows.
    execs: RefCell<BTreeSet<String>>,
    record: Record,
}

#[derive(Debug)]
struct Record {
    file: RefCell<NoteFile>,
    /// Creates of an earlier porter that may still be pending.
    lost: usize,
}

/// What the note of an earlier porter of the same Door says.
#[derive(Clone, Debug, Default)]
pub(crate) struct PriorTraffic {
    /// Creates that were pending; their responses are lost.
    pub(crate) creates: usize,
    /// Exec sessions that may still run.
    pub(crate) execs: Vec<String>,
    /// Created containers.
    pub(crate) made: Vec<String>,
}

/// A create that the engine has not responded to. Dropping it leaves the create pending for good.
#[derive(Debug)]
#[must_use]
pub(super) struct PendingCreate {
    traffic: Rc<Traffic>,
}

impl Traffic {
    /// `note` is the path of the note.
    pub(super) fn new(note: PathBuf, prior: PriorTraffic) -> Self {
        let PriorTraffic { creates: lost, execs, made } = prior;
        Self {
            is_closing: Cell::new(false),
            creates: Arc::default(),
            containers: Cell::new(0),
            made: made.into(),
            execs: RefCell::new(execs.into_iter().collect()),
            record: Record { file: RefCell::new(NoteFile::new(note)), lost },
        }
    }

    /// Denies creates and starts from now on.
    pub(super) fn close(&self) {
        self.is_closing.set(true);
    }

    /// The live number of pending creates.
    pub(super) fn creates(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.creates)
    }

    /// The live set of created containers.
    pub(super) fn made(&self) -> CreatedIds {
        self.made.clone()
    }

    /// Exec sessions that may still run.
    pub(super) fn execs(&self) -> Vec<String> {
        self.execs.borrow().iter().cloned().collect()
    }

    /// Whether the Door may forward a request of this kind now.
    pub(super) fn admit(&self, route: &Route) -> Result<(), Denial> {
        match route {
            Route::Unlabelled(what) => Err(Denial::unlabelled(what)),
            Route::Create(..) | Route::Start | Route::Exec | Route::ExecStart(_)
                if self.is_closing.get() =>
            {
                Err(Denial::closing())
            }
            Route::Exec if self.execs.borrow().len() >= MOST_EXECS => {
                Err(Denial::too_many_execs(MOST_EXECS))
            }
            _ => Ok(()),
        }
    }

    /// Upper bound of the number of containers, pending creates included.
    pub(super) fn containers(&self) -> usize {
        self.containers.get() + self.creates.load(Ordering::Relaxed)
    }

    /// Sets the number of containers that the engine has listed.
    pub(super) fn set_containers(&self, containers: usize) {
        self.containers.set(containers);
    }

    /// Notes a create. The caller forwards it afterwards.
    pub(super) fn begin(self: &Rc<Self>) -> Result<PendingCreate, Denial> {
        // The Door may have been closed while the body of the create arrived.
        if self.is_closing.get() {
            return Err(Denial::closing());
        }
        let creates = self.creates.load(Ordering::Relaxed) + 1;
        let noted = self.record.note(creates, self.execs(), self.made.list());
        noted.map_err(|error| Denial::not_recorded(&error))?;
        self.creates.store(creates, Ordering::Release);
        Ok(PendingCreate { traffic: Rc::clone(self) })
    }

    /// Notes an exec session that the engine has created.
    pub(super) fn exec_created(&self, exec: String) {
        self.execs.borrow_mut().insert(exec);
        self.note();
    }

    /// Forgets an exec session that has ended.
    pub(super) fn exec_ended(&self, exec: &str) {
        if self.execs.borrow_mut().remove(exec) {
            self.note();
        }
    }

    /// Writes the note. A failure is ignored here: the next create fails if the note still can't be written.
    fn note(&self) {
        let creates = self.creates.load(Ordering::Relaxed);
        let _ = self.record.note(creates, self.execs(), self.made.list());
    }
}

impl PendingCreate {
    /// Ends the create of a container, with its id if the response could be read.
    pub(super) fn created(self, id: Option<String>) {
        self.traffic.containers.update(|containers| containers + 1);
        // Before the count drops: the clearing relies on every container without a pending create being in the set.
        if let Some(id) = id {
            self.traffic.made.note(id);
        }
        self.finish();
    }

    /// Ends the create: the engine has responded, or can't respond any more.
    pub(super) fn finish(self) {
        let Self { traffic } = self;
        traffic.creates.fetch_sub(1, Ordering::Release);
        traffic.note();
    }
}

impl Record {
    fn note(&self, creates: usize, execs: Vec<String>, made: Vec<String>) -> io::Result<()> {
        let creates = creates + self.lost;
        self.file.borrow_mut().write(&Note { creates, execs, made })
    }
}
