//! The sweep: ending what dead owners have left.
//!
//! One piece of code for all who find an owner dead: its own guardians when they have finished,
//! the next owner that starts, and `ostler reap`. An owner is dead when its life line can be taken
//! over, and whoever holds that is the only one who sweeps. An instance whose guardian still lives
//! is left to it; the guardian comes back to the ledger when it has finished.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::backend::{Backend, Evidence};
use crate::id::InstanceId;
use crate::ledger::{
    Book, End, Entry, LifeLine, Patience, Record, append, lock_in, owners_in, remove, unfinished,
};
use crate::limits::Limits;
use crate::notes::is_noted;
use crate::outcome::{Outcome, Proof};
use crate::places::{Places, is_private};
use crate::proctable::{Identity, boot_id};
use crate::terms::GuardianProgram;
use crate::ways::{self, Haste, Removal};

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

    /// What there is of each open instance. Nothing is touched.
    pub fn evidence(&self, backend: &dyn Backend) -> BTreeMap<InstanceId, Evidence> {
        let open = self.book.open_entries();
        if self.is_of_another_boot() {
            let directory = &self.book.directory;
            let noted = open.filter(|(id, entry)| is_noted(directory, *id, &entry.intent.ways));
            return noted.map(|(id, entry)| (id, Evidence::without_process(entry))).collect();
        }
        let open: Vec<Entry> = open.map(|(_, entry)| entry.clone()).collect();
        backend.evidence(&open)
    }

    /// Ends all that is left and has no guardian, within `limit`, and settles the ledger.
    pub fn settle(
        mut self,
        backend: &dyn Backend,
        limit: Duration,
    ) -> BTreeMap<InstanceId, Outcome> {
        let evidence = self.evidence(backend).into_values();
        let abandoned = evidence.filter(|evidence| evidence.guardian.is_none());
        let abandoned: Vec<Entry> = abandoned.map(|evidence| evidence.entry).collect();
        let mut outcomes = if self.is_of_another_boot() {
            let gone = |entry: &Entry| (entry.intent.instance, Outcome::Gone(Proof::AnotherBoot));
            abandoned.iter().map(gone).collect()
        } else {
            backend.end(&abandoned, limit)
        };
        let ways = abandoned
            .iter()
            .map(|entry| (entry.intent.instance, &entry.intent.ways, entry.level()));
        let limits = Limits { proof: limit, ..Limits::default() };
        let guardian = GuardianProgram::Myself;
        let removal = Removal { limits, haste: Haste::Sweeping, guardian };
        ways::end(&self.book.directory, ways, &mut outcomes, &removal);
        for (id, outcome) in &outcomes {
            self.note(*id, outcome);
        }
        self.remove_if_settled();
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

    fn remove_if_settled(&self) {
        let directory = &self.book.directory;
        let is_of_another_boot = self.is_of_another_boot();
        let is_owed =
            |id, entry: &Entry| !is_of_another_boot || is_noted(directory, id, &entry.intent.ways);
        if !self.book.open_entries().any(|(id, entry)| is_owed(id, entry)) {
            remove(directory);
        }
    }

    /// No process of it can be alive then, and its pids mean others.
    fn is_of_another_boot(&self) -> bool {
        boot_id().is_ok_and(|boot| boot != self.book.owner.boot)
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
