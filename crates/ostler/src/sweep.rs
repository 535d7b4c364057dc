//! The sweep: ends what dead owners have left.
//!
//! An owner is dead if its lock can be taken over; the process that takes it is the only one that sweeps. An instance
//! whose guardian still lives is left to that guardian, which settles the ledger when it has finished.
//!
//! There are two sweeps. [`DeadOwner::settle`] needs no runtime and ends processes only; the guardians of a dead owner
//! run it when they have finished. [`Backends::settle`](crate::backend::Backends::settle) covers all backends; keepers
//! run it at their start, and `ostler reap` on request.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::id::InstanceId;
use crate::ledger::{
    Book, End, Entry, OwnerLock, PROCESS, Patience, Record, append, lock_in, owners_in, remove,
    unfinished,
};
use crate::outcome::Outcome;
use crate::places::{Places, is_private};
use crate::process;
use crate::proctable::Identity;

/// A dead owner whose lock this process holds, so that it may settle the ledger.
#[derive(Debug)]
pub struct DeadOwner {
    book: Book,
    lock: OwnerLock,
}

/// All readable ledgers, of living and dead owners.
pub fn books(places: &Places) -> Vec<Book> {
    directories(places).filter_map(|directory| Book::read(&directory).ok()).collect()
}

/// All dead owners. Owners of this process are left out without trying their lock: closing a second
/// descriptor of the lock file would release it.
pub fn dead_owners(places: &Places) -> Vec<DeadOwner> {
    remove_unfinished(places);
    directories(places)
        .filter_map(|directory| DeadOwner::at(&directory, Patience::GiveUp))
        .collect()
}

impl DeadOwner {
    pub(crate) fn at(directory: &Path, patience: Patience) -> Option<Self> {
        let book = Book::read(directory).inspect_err(|error| {
            // A ledger without an owner record cannot be acted upon, and no process adds to it.
            if matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::NotFound) {
                remove_if_free(directory);
            }
        });
        let book = book.ok()?;
        if Identity::own() == Some(book.owner.process) {
            return None;
        }
        let lock = OwnerLock::take_over(&lock_in(directory), patience).ok()??;
        // Read again: its owner or another sweep may have written before the lock was taken.
        Some(Self { book: Book::read(directory).ok()?, lock })
    }

    /// Its ledger.
    pub fn book(&self) -> &Book {
        &self.book
    }

    /// Ends all remaining processes that have no guardian, within `limit`, and settles the ledger. Entries of other
    /// backends stay: [`Backends`](crate::backend::Backends) sweep those.
    pub fn settle(mut self, limit: Duration) -> BTreeMap<InstanceId, Outcome> {
        let outcomes = process::end(&self.book.open_of(PROCESS), limit);
        for (id, outcome) in &outcomes {
            self.note(*id, outcome);
        }
        self.leave();
        outcomes
    }

    /// Records how an instance ended.
    pub(crate) fn note(&mut self, instance: InstanceId, outcome: &Outcome) {
        let end = End::from(outcome);
        // After a failed write, the next sweep determines the end again.
        let record = Record::Ended { instance, end: end.clone() };
        let _ = append(&self.book.directory, &record, &self.lock);
        if let Some(entry) = self.book.entries.get_mut(&instance) {
            entry.end = Some(end);
        }
    }

    /// Releases the lock, and removes the directory if all entries are settled.
    pub(crate) fn leave(self) {
        let is_owed = |id, entry: &Entry| {
            entry.intent.backend != PROCESS || process::is_owed(&self.book, id, entry)
        };
        if !self.book.open_entries().any(|(id, entry)| is_owed(id, entry)) {
            remove(&self.book.directory);
        }
    }
}

fn directories(places: &Places) -> impl Iterator<Item = PathBuf> {
    entries(places).filter(|path| !is_unfinished(path))
}

/// All directory entries where owners keep their ledgers.
fn entries(places: &Places) -> impl Iterator<Item = PathBuf> {
    let owners = places.directories().filter(|place| is_private(place)).map(owners_in);
    let entries = owners.filter(|owners| is_private(owners)).flat_map(fs::read_dir);
    entries.flatten().flatten().map(|entry| entry.path())
}

/// Whether a directory still has its temporary name; it is renamed once its lock is held.
fn is_unfinished(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}

/// Removes the directories of owners that died before they had started anything.
fn remove_unfinished(places: &Places) {
    let _unmade = unfinished();
    for path in entries(places).filter(|path| is_unfinished(path)) {
        remove_if_free(&path);
    }
}

fn remove_if_free(directory: &Path) {
    match OwnerLock::take_over(&lock_in(directory), Patience::GiveUp) {
        Ok(Some(_held)) => remove(directory),
        Ok(None) => {}
        // Removes only an empty directory; a living owner creates it again.
        Err(_) => drop(fs::remove_dir(directory)),
    }
}
