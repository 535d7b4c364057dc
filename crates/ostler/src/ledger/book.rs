//! Reading a ledger, also one that was cut off in mid-word.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use super::record::{End, Intent, OwnerRecord, Record, Start};
use crate::id::InstanceId;
use crate::level::Level;
use crate::records;

pub(super) const LEDGER: &str = "ledger";
pub(super) const LOCK: &str = "owner.lock";

/// What a ledger says.
#[derive(Clone, Debug, PartialEq)]
pub struct Book {
    /// The owner's directory.
    pub directory: PathBuf,
    /// Whose it is.
    pub owner: OwnerRecord,
    /// All that was intended and not crossed out.
    pub entries: BTreeMap<InstanceId, Entry>,
}

/// What a ledger says of one instance.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// What was about to be started.
    pub intent: Intent,
    /// What was started, if it came to that.
    pub start: Option<Start>,
    /// How it ended, if it has.
    pub end: Option<End>,
}

impl Entry {
    /// Whether there is nothing more to do about it.
    pub fn is_settled(&self) -> bool {
        self.end.as_ref().is_some_and(End::is_settled)
    }

    /// How firmly it was held. If that is not on record, as if it was held as firmly as can be.
    pub(crate) fn level(&self) -> Level {
        self.start.as_ref().and_then(|start| start.level).unwrap_or(Level::Strict)
    }
}

impl Book {
    /// Reads the ledger in an owner's directory.
    pub fn read(directory: &Path) -> io::Result<Self> {
        let text = records::read(&directory.join(LEDGER))?;
        Self::parse(directory, &text).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// What is not settled.
    pub fn open_entries(&self) -> impl Iterator<Item = (InstanceId, &Entry)> {
        self.entries.iter().filter(|(_, e)| !e.is_settled()).map(|(id, entry)| (*id, entry))
    }

    /// The same ledger with the open entries of one backend only.
    #[must_use]
    pub fn open_of(&self, backend: &str) -> Self {
        let entries = self.open_entries().filter(|(_, entry)| entry.intent.backend == backend);
        let entries = entries.map(|(id, entry)| (id, entry.clone())).collect();
        Self { directory: self.directory.clone(), owner: self.owner.clone(), entries }
    }

    /// A line that can't be read, such as a torn last one, says nothing; the others still count.
    fn parse(directory: &Path, text: &[u8]) -> Option<Self> {
        let mut owner = None;
        let mut entries = BTreeMap::new();
        let lines = text.split(|byte| *byte == b'\n');
        for record in lines.filter_map(|line| serde_json::from_slice(line).ok()) {
            match record {
                Record::Owner(record) => owner = owner.or(Some(record)),
                record => enter(&mut entries, record),
            }
        }
        Some(Self { directory: directory.to_owned(), owner: owner?, entries })
    }
}

/// Adds what a record says to the entry of its instance.
pub(super) fn enter(entries: &mut BTreeMap<InstanceId, Entry>, record: Record) {
    match record {
        Record::Owner(_) => {}
        Record::Intent(intent) => {
            let entry = Entry { intent, start: None, end: None };
            entries.entry(entry.intent.instance).or_insert(entry);
        }
        Record::Started(start) => {
            if let Some(entry) = entries.get_mut(&start.instance) {
                // An owner writes it once: what was added later is not the owner's.
                entry.start.get_or_insert(start);
            }
        }
        Record::Ended { instance, end } => {
            if let Some(entry) = entries.get_mut(&instance) {
                entry.end = Some(end);
            }
        }
    }
}
