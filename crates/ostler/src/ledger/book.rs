//! Parses a ledger, even one that ends within a line.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use super::record::{End, Intent, OwnerRecord, Record, Start};
use crate::id::InstanceId;
use crate::level::Level;
use crate::records;

pub(super) const LEDGER: &str = "ledger";
pub(super) const LOCK: &str = "owner.lock";

/// A parsed ledger.
#[derive(Clone, Debug, PartialEq)]
pub struct Book {
    /// The owner's directory.
    pub directory: PathBuf,
    /// The owner.
    pub owner: OwnerRecord,
    /// Instances by id.
    pub entries: BTreeMap<InstanceId, Entry>,
}

/// The records of one instance.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Written before the start.
    pub intent: Intent,
    /// Written once it ran.
    pub start: Option<Start>,
    /// Written when it ended.
    pub end: Option<End>,
}

impl Entry {
    /// Whether it has ended and needs no further cleanup.
    pub fn is_settled(&self) -> bool {
        self.end.as_ref().is_some_and(End::is_settled)
    }

    /// Its containment level. Without a record, the strictest one is assumed.
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

    /// The unsettled entries.
    pub fn open_entries(&self) -> impl Iterator<Item = (InstanceId, &Entry)> {
        self.entries.iter().filter(|(_, e)| !e.is_settled()).map(|(id, entry)| (*id, entry))
    }

    /// A copy with the unsettled entries of one backend only.
    #[must_use]
    pub fn open_of(&self, backend: &str) -> Self {
        let entries = self.open_entries().filter(|(_, entry)| entry.intent.backend == backend);
        let entries = entries.map(|(id, entry)| (id, entry.clone())).collect();
        Self { directory: self.directory.clone(), owner: self.owner.clone(), entries }
    }

    /// Ignores invalid lines, such as a partial last one. `None` if there is no owner record.
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
