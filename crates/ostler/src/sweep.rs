//! The sweep: ending what dead owners have left.
//!
//! There are two. The fence's own is here ([`DeadOwner::settle`]): the guardians of a dead owner run it when they have
//! finished, without a runtime, and it touches processes only. That of keepers goes over all backends
//! ([`Backends::settle`](crate::backend::Backends::settle)), at their start and by `ostler reap`. An owner is dead when its life line can be taken
//! over, and whoever holds that is the only one who sweeps. An instance whose guardian still lives
//! is left to it; the guardian comes back to the ledger when it has finished.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::id::InstanceId;
use crate::ledger::{
    Book, End, Entry, LifeLine, PROCESS, Patience, Record, append, lock_in, owners_in, remove,
    unfinished,
};
use crate::outcome::Outcome;
use crate::places::{Places, is_private};
use crate::process;
use crate::proctable::Identity;

/// An owner that is dead, and whose ledger is ours to settle.
#[derive(Debug)]
pub struct DeadOwner {
    book: Book,
    life_line: LifeLine,
}

/// All ledgers that can be read, of the living and the dead.
pub fn books(places: &Places) -> Vec<Book> {
    directories(places).filter_map(|directory| Book::read(&directory).ok()).collect()
}

/// All owners that are dead. Those of this very process are never among them: to try their life
/// line would cut it.
pub fn dead_owners(places: &Places) -> Vec<DeadOwner> {
    remove_unfinished(places);
    directories(places)
        .filter_map(|directory| DeadOwner::at(&directory, Patience::GiveUp))
        .collect()
}

impl DeadOwner {
    pub(crate) fn at(directory: &Path, patience: Patience) -> Option<Self> {
        let book = Book::read(directory).inspect_err(|error| {
            // Without an owner nothing that it says can be acted upon, and nobody adds to it.
            if matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::NotFound) {
                remove_if_free(directory);
            }
        });
        let book = book.ok()?;
        if Identity::own() == Some(book.owner.process) {
            return None;
        }
        let life_line = LifeLine::take_over(&lock_in(directory), patience).ok()??;
        // Read again: until now its owner, or another sweep, may have written.
        Some(Self { book: Book::read(directory).ok()?, life_line })
    }

    /// Its ledger.
    pub fn book(&self) -> &Book {
        &self.book
    }

    /// The sweep of the fence: ends all processes that are left and have no guardian, within `limit`, and settles
    /// the ledger. It leaves entries of other backends alone: [`Backends`](crate::backend::Backends) sweep those.
    pub fn settle(mut self, limit: Duration) -> BTreeMap<InstanceId, Outcome> {
        let outcomes = process::end(&self.book.open_of(PROCESS), limit);
        for (id, outcome) in &outcomes {
            self.note(*id, outcome);
        }
        self.leave();
        outcomes
    }

    /// Notes what a guardian knows of its own instance.
    pub(crate) fn note(&mut self, instance: InstanceId, outcome: &Outcome) {
        let end = End::from(outcome);
        // What can't be written is found out again by the next sweep.
        let record = Record::Ended { instance, end: end.clone() };
        let _ = append(&self.book.directory, &record, &self.life_line);
        if let Some(entry) = self.book.entries.get_mut(&instance) {
            entry.end = Some(end);
        }
    }

    /// Removes the directory, if nothing is owed any more.
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

/// Whatever is where owners have their directories.
fn entries(places: &Places) -> impl Iterator<Item = PathBuf> {
    let owners = places.directories().filter(|place| is_private(place)).map(owners_in);
    let entries = owners.filter(|owners| is_private(owners)).flat_map(fs::read_dir);
    entries.flatten().flatten().map(|entry| entry.path())
}

/// A directory gets its real name when its lock is held.
fn is_unfinished(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}

/// Removes what an owner has left that died before it could start anything.
fn remove_unfinished(places: &Places) {
    let _unmade = unfinished();
    for path in entries(places).filter(|path| is_unfinished(path)) {
        remove_if_free(&path);
    }
}

fn remove_if_free(directory: &Path) {
    match LifeLine::take_over(&lock_in(directory), Patience::GiveUp) {
        Ok(Some(_held)) => remove(directory),
        Ok(None) => {}
        // Only an empty one goes; its owner, if it lives, makes it anew.
        Err(_) => drop(fs::remove_dir(directory)),
    }
}
