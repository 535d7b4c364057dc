//! The record of what `link` did to a file.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::LinkError;
use crate::files::{Document, FileError};

/// What was done to a file, so that it can be undone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// The client.
    pub(crate) client: String,
    /// The file.
    pub(crate) file: PathBuf,
    /// Hash of the content that ostler left.
    pub(crate) after: String,
    /// The content before the first edit, if no other program wrote to the file since.
    pub(crate) original: Original,
    /// The edits.
    pub(crate) entries: Vec<Entry>,
}

/// What a file was before the first edit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Original {
    /// As this backup.
    Backup(PathBuf),
    /// Not there.
    Missing,
    /// Another program wrote to the file between two edits.
    Lost,
}

/// An edited entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// Its keys.
    pub(crate) path: Vec<String>,
    /// What was done to it.
    pub(crate) part: Part,
    /// The file as it was before this edit.
    pub(crate) backup: Option<PathBuf>,
}

/// What was done to an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Part {
    /// It starts ostler instead.
    Rewritten,
    /// It was added.
    Added,
    /// It was removed.
    Removed,
}

/// Hash of a text.
pub(crate) fn hash(text: &str) -> String {
    let digits = Sha256::digest(text).into_iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect()
}

impl Record {
    /// Where the record of a file is.
    pub(crate) fn path(state: &Path, file: &Path) -> PathBuf {
        let name = hash(&file.to_string_lossy());
        state.join("links").join(format!("{}.json", &name[..32]))
    }

    /// Reads the record of a file, if there is one.
    pub(crate) fn read(state: &Path, file: &Path) -> Result<Option<Self>, LinkError> {
        let path = Self::path(state, file);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(LinkError::Record { path, reason: error.to_string() }),
        };
        let record = serde_json::from_str(&text);
        record.map(Some).map_err(|error| LinkError::Record { path, reason: error.to_string() })
    }

    /// Writes the record.
    pub(crate) fn write(&self, state: &Path) -> Result<(), FileError> {
        let path = Self::path(state, &self.file);
        let text = serde_json::to_string_pretty(self).map_err(io::Error::other);
        let text = text.map_err(|source| FileError::Unwritable { path: path.clone(), source })?;
        Document::read(&path)?.replace(&text)
    }

    /// Removes the record of a file.
    pub(crate) fn remove(state: &Path, file: &Path) -> Result<(), FileError> {
        let path = Self::path(state, file);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(FileError::Unwritable { path, source: error })
            }
            _ => Ok(()),
        }
    }
}
