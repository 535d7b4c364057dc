//! Writes what was planned.

use std::path::{Path, PathBuf};

use super::LinkError;
use super::plan::Plan;
use super::record::{Entry, Original, Record, hash};
use crate::files::{Document, FileError, write_new};

/// Where backups and records go.
#[derive(Clone, Copy, Debug)]
pub struct Backups<'a> {
    /// ostler's state directory.
    pub state: &'a Path,
    /// The time, for names of files.
    pub stamp: &'a str,
}

/// Why a plan was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// A file can't be written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The record of an earlier link can't be read.
    #[error(transparent)]
    Record(#[from] LinkError),
}

impl Backups<'_> {
    /// Keeps the content of a file. Returns the path of the backup; `None` if there is no file.
    pub fn keep(&self, document: &Document, mark: &str) -> Result<Option<PathBuf>, FileError> {
        if !document.exists() {
            return Ok(None);
        }
        let name = document.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
        let directory = self.state.join("backups");
        let names = (1_usize..).map(|number| {
            let number = if number == 1 { String::new() } else { format!("-{number}") };
            directory.join(format!("{}{number}-{mark}-{name}", self.stamp))
        });
        let path = names.into_iter().find(|path| path.symlink_metadata().is_err());
        let path = path.unwrap_or(directory);
        write_new(&path, document.text())?;
        Ok(Some(path))
    }
}

impl Plan {
    /// Writes the file. Returns the path of its backup; `None` if there was no file.
    pub fn apply(&self, backups: Backups<'_>) -> Result<Option<PathBuf>, ApplyError> {
        let file = self.document.path();
        let old = Record::read(backups.state, file)?;
        let backup = backups.keep(&self.document, self.client.id)?;
        let record = self.record(old.as_ref(), backup.as_deref());
        // First, so that a crash between the two leaves a record of edits that did not happen, and not the reverse.
        record.write(backups.state)?;
        let written = self.document.replace(&self.after);
        if written.is_err() {
            match old {
                Some(old) => old.write(backups.state)?,
                None => Record::remove(backups.state, file)?,
            }
        }
        written?;
        Ok(backup)
    }

    fn record(&self, old: Option<&Record>, backup: Option<&Path>) -> Record {
        let original = match (old, backup) {
            (Some(old), _) if old.after == hash(self.document.text()) => old.original.clone(),
            (Some(_), _) => Original::Lost,
            (None, Some(backup)) => Original::Backup(backup.to_owned()),
            (None, None) => Original::Missing,
        };
        let known = old.map_or(&[][..], |old| &old.entries);
        let is_new = |path: &Vec<String>| known.iter().all(|entry| entry.path != *path);
        let new = self.parts.iter().filter(|(path, _)| is_new(path)).map(|(path, part)| Entry {
            path: path.clone(),
            part: *part,
            backup: backup.map(Path::to_owned),
        });
        Record {
            client: self.client.id.to_owned(),
            file: self.document.path().to_owned(),
            after: hash(&self.after),
            original,
            entries: known.iter().cloned().chain(new).collect(),
        }
    }
}
