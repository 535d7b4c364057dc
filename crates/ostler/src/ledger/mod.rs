//! The ledger: an owner's record on disk of the instances it starts, written before each start.
//!
//! Each owner has a directory `owners/ID` in one of its [`Places`]. It contains `owner.lock`, which the
//! owner locks as long as it lives, and `ledger`, one JSON record per line. Records are appended; from
//! time to time the file is rewritten without settled entries. Only the process that holds the lock
//! writes: the owner, and after its death the sweep that takes the lock over. A directory without open
//! entries is removed, so that an idle owner leaves no trace.
//!
//! Ledgers are not flushed to disk: they must survive the death of processes, and a power failure ends
//! the very processes that they describe. Containers outlive a power failure, so the directory is
//! flushed before an instance may create one.

mod book;
mod owner_lock;
mod record;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use crate::containers::{EngineDoor, Ways};
pub use book::{Book, Entry};
pub(crate) use owner_lock::{OwnerLock, Patience};
pub use record::{Client, End, Intent, OwnerRecord, PROCESS, Record, Start};

use crate::id::{InstanceId, OwnerId};
use crate::places::{Places, describe, make_private};
use crate::records;
use book::{LEDGER, LOCK};

/// Temporary name of the ledger while it is rewritten.
const LEDGER_ASIDE: &str = "ledger.new";

/// A ledger with at least this many lines is rewritten when half of them are settled.
const COMPACT_BEYOND: usize = 128;

/// Attempts to create the directory if a sweep removes it meanwhile.
const OPEN_ATTEMPTS: usize = 3;

/// No ledger could be created. Without one, no server is started.
#[derive(Debug, thiserror::Error)]
#[error("no directory can hold the ledger ({}); set XDG_STATE_HOME to one that can", tried.join("; "))]
pub struct NoLedger {
    tried: Vec<String>,
}

/// The ledger of a living owner.
#[derive(Debug)]
pub(crate) struct Ledger {
    owner: OwnerRecord,
    places: Places,
    ledgers: Mutex<Vec<OpenLedger>>,
}

/// An owner's directory in one place; it exists only while it has open entries. An owner has a second
/// one if the first became unwritable.
#[derive(Debug)]
struct OpenLedger {
    owner: OwnerRecord,
    directory: PathBuf,
    file: File,
    /// The last write failed, perhaps within a line: the file lacks something that `open` has.
    is_stale: bool,
    lines: usize,
    /// Records of unsettled instances.
    open: BTreeMap<InstanceId, Vec<Record>>,
    _lock: OwnerLock,
}

impl Ledger {
    pub(crate) fn new(places: Places, owner: OwnerRecord) -> Self {
        Self { owner, places, ledgers: Mutex::new(Vec::new()) }
    }

    pub(crate) fn owner(&self) -> OwnerId {
        self.owner.id
    }

    /// Records an intent and returns the owner's directory. Falls back to the next place if one cannot be written.
    pub(crate) fn intend(&self, intent: Intent) -> Result<PathBuf, NoLedger> {
        let mut ledgers = self.lock();
        let record = Record::Intent(intent);
        let taken = ledgers
            .iter_mut()
            .find_map(|ledger| ledger.write(&record).ok().map(|()| ledger.directory.clone()));
        if let Some(directory) = taken {
            return Ok(directory);
        }
        let used: Vec<PathBuf> = ledgers.iter().map(|ledger| ledger.directory.clone()).collect();
        let unused = |place: &&Path| !used.iter().any(|directory| directory.starts_with(place));
        let ledger =
            OpenLedger::open_in(self.places.directories().filter(unused), &self.owner, &record)?;
        let directory = ledger.directory.clone();
        ledgers.push(ledger);
        Ok(directory)
    }

    /// Records what became of an intent. After a failed write, the next sweep determines it again.
    pub(crate) fn note(&self, record: &Record) {
        let (Record::Started(Start { instance, .. }) | Record::Ended { instance, .. }) = record
        else {
            return;
        };
        let mut ledgers = self.lock();
        if let Some(ledger) = ledgers.iter_mut().find(|ledger| ledger.open.contains_key(instance)) {
            let _ = ledger.write(record);
        }
        ledgers.retain(|ledger| !ledger.open.is_empty());
    }

    /// The entry of an instance that is not settled.
    #[cfg(feature = "keeper")]
    pub(crate) fn entry(&self, instance: InstanceId) -> Option<Entry> {
        let ledgers = self.lock();
        let records = ledgers.iter().find_map(|ledger| ledger.open.get(&instance))?;
        let mut entries = BTreeMap::new();
        for record in records {
            book::enter(&mut entries, record.clone());
        }
        entries.remove(&instance)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<OpenLedger>> {
        self.ledgers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenLedger {
    fn open_in<'p>(
        places: impl Iterator<Item = &'p Path>,
        owner: &OwnerRecord,
        first: &Record,
    ) -> Result<Self, NoLedger> {
        let mut tried = Vec::new();
        for place in places {
            let written = Self::open(place, owner).and_then(|mut ledger| {
                ledger.write(first)?;
                Ok(ledger)
            });
            match written {
                Ok(ledger) => return Ok(ledger),
                Err(error) => tried.push(describe(place, &error)),
            }
        }
        Err(NoLedger { tried })
    }

    fn open(place: &Path, owner: &OwnerRecord) -> io::Result<Self> {
        make_private(place)?;
        let owners = owners_in(place);
        make_private(&owners)?;
        // A sweep may remove the directory before its lock is held.
        let mut attempts = (0..OPEN_ATTEMPTS).map(|_| Self::open_aside(&owners, owner));
        let is_final = |attempt: &io::Result<Self>| !matches!(attempt, Err(error) if error.kind() == io::ErrorKind::NotFound);
        attempts.find(is_final).unwrap_or_else(|| Err(io::ErrorKind::NotFound.into()))
    }

    /// Creates the directory under a temporary name, so that one with its final name always has an owner record and a
    /// lock.
    fn open_aside(owners: &Path, owner: &OwnerRecord) -> io::Result<Self> {
        let _unswept = unfinished();
        let (aside, directory) =
            (owners.join(format!(".{}", owner.id)), owners.join(owner.id.to_string()));
        fs::create_dir(&aside)?;
        let written = OwnerLock::create(&aside.join(LOCK)).and_then(|lock| {
            let file = append_to(&aside)?;
            write_line(&file, &Record::Owner(owner.clone()), false)?;
            fs::rename(&aside, &directory)?;
            Ok((lock, file))
        });
        match written {
            Ok((lock, file)) => {
                let (owner, open) = (owner.clone(), BTreeMap::new());
                Ok(Self { owner, directory, file, is_stale: false, lines: 1, open, _lock: lock })
            }
            Err(error) => {
                remove(&aside);
                Err(error)
            }
        }
    }

    /// Writes a record. After an error, an intent is not on record; other records stay in memory and are
    /// written by the next write.
    fn write(&mut self, record: &Record) -> io::Result<()> {
        self.remember(record);
        let written = if self.is_stale { self.rewrite() } else { self.append(record) };
        self.is_stale = written.is_err();
        if let (Err(_), Record::Intent(intent)) = (&written, record) {
            self.open.remove(&intent.instance);
        }
        if written.is_ok() && self.lines >= COMPACT_BEYOND && self.lines >= 2 * self.needed() {
            // The file is complete without it: rewriting only makes it shorter.
            let _ = self.rewrite();
        }
        written
    }

    fn remember(&mut self, record: &Record) {
        match record {
            Record::Intent(intent) => {
                self.open.insert(intent.instance, vec![record.clone()]);
            }
            Record::Ended { instance, end } if end.is_settled() => {
                self.open.remove(instance);
            }
            Record::Started(Start { instance, .. }) | Record::Ended { instance, .. } => {
                self.open.entry(*instance).or_default().push(record.clone());
            }
            Record::Owner(_) => {}
        }
    }

    fn append(&mut self, record: &Record) -> io::Result<()> {
        write_line(&self.file, record, false)?;
        self.lines += 1;
        Ok(())
    }

    /// Number of lines that a rewritten file has: the owner's and those of unsettled instances.
    fn needed(&self) -> usize {
        1 + self.open.values().map(Vec::len).sum::<usize>()
    }

    /// Replaces the file by one with the unsettled records only.
    fn rewrite(&mut self) -> io::Result<()> {
        let aside = self.directory.join(LEDGER_ASIDE);
        // A failed attempt may have left one.
        let _ = fs::remove_file(&aside);
        let file = OpenOptions::new().append(true).create_new(true).open(&aside)?;
        let owner = Record::Owner(self.owner.clone());
        for record in std::iter::once(&owner).chain(self.open.values().flatten()) {
            write_line(&file, record, false)?;
        }
        fs::rename(&aside, self.directory.join(LEDGER))?;
        (self.file, self.lines) = (file, self.needed());
        Ok(())
    }
}

impl Drop for OpenLedger {
    /// Removes the directory, unless it has open entries for the guardians and the next sweep.
    fn drop(&mut self) {
        if self.open.is_empty() {
            remove(&self.directory);
        }
    }
}

/// Removes an owner's directory, the lock file last: if this process is killed meanwhile, the rest
/// can still be told from a living owner's.
pub(crate) fn remove(directory: &Path) {
    // The next sweep removes what this cannot.
    for name in [LEDGER_ASIDE, LEDGER] {
        let _ = fs::remove_file(directory.join(name));
    }
    let _ = fs::remove_dir_all(directory);
}

/// Mutex of this process between creating a directory and sweeping unfinished ones: a sweep would get
/// the lock of its own process, and closing it would release the owner's.
pub(crate) fn unfinished() -> MutexGuard<'static, ()> {
    static UNFINISHED: Mutex<()> = Mutex::new(());
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The directory of all owners' directories.
pub(crate) fn owners_in(place: &Path) -> PathBuf {
    place.join("owners")
}

pub(crate) fn lock_in(directory: &Path) -> PathBuf {
    directory.join(LOCK)
}

/// Flushes an owner's directory to disk. Needed before containers, which outlive a power failure.
pub(crate) fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory.join(LEDGER))?.sync_all()?;
    for directory in directory.ancestors().take(2) {
        File::open(directory)?.sync_all()?;
    }
    Ok(())
}

/// Appends a record to the ledger of a dead owner whose lock the caller holds.
pub(crate) fn append(directory: &Path, record: &Record, _held: &OwnerLock) -> io::Result<()> {
    let ends_torn = !records::read(&directory.join(LEDGER))?.ends_with(b"\n");
    write_line(&append_to(directory)?, record, ends_torn)
}

fn append_to(directory: &Path) -> io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let mut options = OpenOptions::new();
    options.append(true).create(true).custom_flags(flags).open(directory.join(LEDGER))
}

/// Writes a line with one system call: a partial line can only be at the end of the file.
fn write_line(mut file: &File, record: &Record, after_torn: bool) -> io::Result<()> {
    let mut line = if after_torn { vec![b'\n'] } else { Vec::new() };
    serde_json::to_writer(&mut line, record)?;
    line.push(b'\n');
    file.write_all(&line)
}
