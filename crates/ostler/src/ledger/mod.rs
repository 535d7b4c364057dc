//! The ledger: what an owner has started, on disk before it is started.
//!
//! One directory per owner, `owners/ID` in one of its [`Places`], with two files: `owner.lock`,
//! whose lock is the owner's life line, and `ledger`, lines of JSON that are only ever appended to
//! and from time to time rewritten without what is settled. As long as the lock is held only the
//! owner writes; once it is free, whoever takes it over. A directory without open entries is
//! removed, so that an idle owner leaves no trace.
//!
//! Nothing is flushed to the disk: a ledger has to survive the death of processes, and what a power
//! failure takes with it are the very processes that it would tell of. Only when an instance is about
//! to have containers, which outlive that, is its owner's directory flushed.

mod book;
mod life_line;
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
pub(crate) use life_line::{LifeLine, Patience};
pub use record::{Client, End, Intent, OwnerRecord, PROCESS, Record, Start};

use crate::id::{InstanceId, OwnerId};
use crate::places::{Places, make_private};
use crate::records;
use book::{LEDGER, LOCK};

/// What becomes the ledger when it is rewritten.
const LEDGER_ASIDE: &str = "ledger.new";

/// Settled lines beyond this many are dropped when they outnumber the others.
const COMPACT_BEYOND: usize = 128;

/// How often a directory is made anew that a sweep has removed.
const OPEN_ATTEMPTS: usize = 3;

/// Why there is no ledger. Without one nothing is started.
#[derive(Debug, thiserror::Error)]
#[error("no directory can hold the ledger ({}); set XDG_STATE_HOME to one that can", tried.join("; "))]
pub struct NoLedger {
    tried: Vec<String>,
}

/// An owner's own ledger.
#[derive(Debug)]
pub(crate) struct Ledger {
    owner: OwnerRecord,
    places: Places,
    pages: Mutex<Vec<Page>>,
}

/// An owner's directory, which is there only while it has open entries. There is a second one if
/// the first could not be written any more.
#[derive(Debug)]
struct Page {
    owner: OwnerRecord,
    directory: PathBuf,
    file: File,
    /// The last write has failed, perhaps in mid-line: the file does not say all that `open` does.
    behind: bool,
    lines: usize,
    /// The lines that still matter.
    open: BTreeMap<InstanceId, Vec<Record>>,
    _life_line: LifeLine,
}

impl Ledger {
    pub(crate) fn new(places: Places, owner: OwnerRecord) -> Self {
        Self { owner, places, pages: Mutex::new(Vec::new()) }
    }

    /// Whose it is.
    pub(crate) fn owner(&self) -> OwnerId {
        self.owner.id
    }

    /// Notes an intent, and says where. If a place is full or gone, in the next one.
    pub(crate) fn intend(&self, intent: Intent) -> Result<PathBuf, NoLedger> {
        let mut pages = self.lock();
        let record = Record::Intent(intent);
        let taken = pages
            .iter_mut()
            .find_map(|page| page.write(&record).ok().map(|()| page.directory.clone()));
        if let Some(directory) = taken {
            return Ok(directory);
        }
        let used: Vec<PathBuf> = pages.iter().map(|page| page.directory.clone()).collect();
        let unused = |place: &&Path| !used.iter().any(|directory| directory.starts_with(place));
        let page = Page::open_in(self.places.directories().filter(unused), &self.owner, &record)?;
        let directory = page.directory.clone();
        pages.push(page);
        Ok(directory)
    }

    /// Notes what became of an intent. What can't be written is found out by the next sweep.
    pub(crate) fn note(&self, record: &Record) {
        let (Record::Started(Start { instance, .. }) | Record::Ended { instance, .. }) = record
        else {
            return;
        };
        let mut pages = self.lock();
        if let Some(page) = pages.iter_mut().find(|page| page.open.contains_key(instance)) {
            let _ = page.write(record);
        }
        pages.retain(|page| !page.open.is_empty());
    }

    /// What is on record of an instance that is not settled.
    #[cfg(feature = "keeper")]
    pub(crate) fn entry(&self, instance: InstanceId) -> Option<Entry> {
        let pages = self.lock();
        let records = pages.iter().find_map(|page| page.open.get(&instance))?;
        let mut entries = BTreeMap::new();
        for record in records {
            book::enter(&mut entries, record.clone());
        }
        entries.remove(&instance)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Page>> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Page {
    fn open_in<'p>(
        places: impl Iterator<Item = &'p Path>,
        owner: &OwnerRecord,
        first: &Record,
    ) -> Result<Self, NoLedger> {
        let mut tried = Vec::new();
        for place in places {
            let written = Self::open(place, owner).and_then(|mut page| {
                page.write(first)?;
                Ok(page)
            });
            match written {
                Ok(page) => return Ok(page),
                Err(error) => tried.push(format!("{}: {error}", place.display())),
            }
        }
        Err(NoLedger { tried })
    }

    fn open(place: &Path, owner: &OwnerRecord) -> io::Result<Self> {
        make_private(place)?;
        let owners = owners_in(place);
        make_private(&owners)?;
        // A sweep may mistake it for a dead owner's until its lock is held.
        let mut attempts = (0..OPEN_ATTEMPTS).map(|_| Self::open_aside(&owners, owner));
        let is_final = |attempt: &io::Result<Self>| !matches!(attempt, Err(error) if error.kind() == io::ErrorKind::NotFound);
        attempts.find(is_final).unwrap_or_else(|| Err(io::ErrorKind::NotFound.into()))
    }

    /// Made under another name, so that a directory with a real name has an owner and a lock.
    fn open_aside(owners: &Path, owner: &OwnerRecord) -> io::Result<Self> {
        let _unswept = unfinished();
        let (aside, directory) =
            (owners.join(format!(".{}", owner.id)), owners.join(owner.id.to_string()));
        fs::create_dir(&aside)?;
        let written = LifeLine::create(&aside.join(LOCK)).and_then(|life_line| {
            let file = append_to(&aside)?;
            write_line(&file, &Record::Owner(owner.clone()), false)?;
            fs::rename(&aside, &directory)?;
            Ok((life_line, file))
        });
        match written {
            Ok((life_line, file)) => {
                let (owner, open) = (owner.clone(), BTreeMap::new());
                Ok(Self {
                    owner,
                    directory,
                    file,
                    behind: false,
                    lines: 1,
                    open,
                    _life_line: life_line,
                })
            }
            Err(error) => {
                remove(&aside);
                Err(error)
            }
        }
    }

    /// After an error an intent is not on record, and anything else is so in memory only, until the
    /// next write.
    fn write(&mut self, record: &Record) -> io::Result<()> {
        self.remember(record);
        let written = if self.behind { self.rewrite() } else { self.append(record) };
        self.behind = written.is_err();
        if let (Err(_), Record::Intent(intent)) = (&written, record) {
            self.open.remove(&intent.instance);
        }
        if written.is_ok() && self.lines >= COMPACT_BEYOND && self.lines >= 2 * self.needed() {
            // It is whole as it is: this only makes it shorter.
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

    /// How many lines are not settled, the owner's among them.
    fn needed(&self) -> usize {
        1 + self.open.values().map(Vec::len).sum::<usize>()
    }

    /// Writes what is not settled, beside the ledger and then in its place.
    fn rewrite(&mut self) -> io::Result<()> {
        let aside = self.directory.join(LEDGER_ASIDE);
        // From an attempt that has failed.
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

impl Drop for Page {
    /// With open entries it stays, for the guardians and the next sweep.
    fn drop(&mut self) {
        if self.open.is_empty() {
            remove(&self.directory);
        }
    }
}

/// Removes an owner's directory. The lock goes last, so that what is left of it if this process is
/// killed meanwhile can still be told from a living owner's.
pub(crate) fn remove(directory: &Path) {
    // What can't be removed now is found by the next sweep.
    for name in [LEDGER_ASIDE, LEDGER] {
        let _ = fs::remove_file(directory.join(name));
    }
    let _ = fs::remove_dir_all(directory);
}

/// Held by whoever in this process makes a directory, or sweeps those that were never finished: to
/// try a lock of one's own process would succeed, and cut it.
pub(crate) fn unfinished() -> MutexGuard<'static, ()> {
    static UNFINISHED: Mutex<()> = Mutex::new(());
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where the owners' directories are.
pub(crate) fn owners_in(place: &Path) -> PathBuf {
    place.join("owners")
}

pub(crate) fn lock_in(directory: &Path) -> PathBuf {
    directory.join(LOCK)
}

/// Brings an owner's directory to the disk. Only containers need that: they outlive a power failure.
pub(crate) fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory.join(LEDGER))?.sync_all()?;
    for directory in directory.ancestors().take(2) {
        File::open(directory)?.sync_all()?;
    }
    Ok(())
}

/// Appends a record to the ledger of a dead owner, whose lock the caller holds.
pub(crate) fn append(directory: &Path, record: &Record, _held: &LifeLine) -> io::Result<()> {
    let ends_torn = !records::read(&directory.join(LEDGER))?.ends_with(b"\n");
    write_line(&append_to(directory)?, record, ends_torn)
}

fn append_to(directory: &Path) -> io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let mut options = OpenOptions::new();
    options.append(true).create(true).custom_flags(flags).open(directory.join(LEDGER))
}

/// In one write, so that a line is there as a whole, or is the torn end of the file.
fn write_line(mut file: &File, record: &Record, after_torn: bool) -> io::Result<()> {
    let mut line = if after_torn { vec![b'\n'] } else { Vec::new() };
    serde_json::to_writer(&mut line, record)?;
    line.push(b'\n');
    file.write_all(&line)
}
